"""Packages that pyarrow imports where they are installed, and that a query or a run of a command does not need."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

_OPTIONAL = ("numpy", "pandas")


class _Absence(MetaPathFinder):
    """Finder by which the packages are not installed."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Refuse the packages; leave all others to the next finder."""
        if fullname in _OPTIONAL:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


@contextmanager
def absent() -> Iterator[None]:
    """Keep pyarrow from importing numpy and pandas, which takes longer than most queries, and half of a run's command.

    pyarrow needs them only to recognise and make their objects. For the process of one command: what is imported
    already stays, but pyarrow does without numpy for good if it is imported within.
    """
    finder = _Absence()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
