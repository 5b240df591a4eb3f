"""One test for many things of a kind, which tells all that fail and not the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def offenders(check: Callable[[T], None], things: Iterable[T], named: Callable[[T], str] = str) -> list[str]:
    """The things that a check fails for, each with the reason in one line; there has to be something to look at."""
    looked_at = list(things)
    assert looked_at, "there is nothing to look at"
    found = []
    for thing in looked_at:
        try:
            check(thing)
        except (Exception, SystemExit) as error:
            why = (str(error) or "it does not hold").splitlines()[0]
            found.append(f"{named(thing)}: {type(error).__name__}: {why}")
    return found
