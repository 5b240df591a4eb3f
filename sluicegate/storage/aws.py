"""What is said of S3: by the address of a place, and by the variables that all programs of AWS look at.

Needs the standard library only, since DAG files are parsed with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# A store that refuses for a moment is asked again, for a minute at most: what is waited for longer is a run that hangs.
ATTEMPTS = 8
ARROW_ATTEMPTS = 5  # each after twice the time of the last: 8 are a minute
RETRY_SECONDS = 60
CONNECT_SECONDS = 5
REQUEST_SECONDS = 60

_GIVEN: ContextVar[dict[str, str]] = ContextVar("given", default={})  # noqa: B039 (never changed in place)


@contextmanager
def given(variables: dict[str, str]) -> Iterator[None]:
    """Within it, in this thread, these are looked at before the variables of the environment.

    For processes that look at stores of several people at once; all others set their environment.
    """
    before = _GIVEN.set(variables)
    try:
        yield
    finally:
        _GIVEN.reset(before)


def current() -> dict[str, str]:
    """What is given in this thread."""
    return _GIVEN.get()


def said(name: str) -> str:
    """A variable that is given or of the environment; empty if there is none."""
    given_here = _GIVEN.get()
    return given_here[name] if name in given_here else os.environ.get(name, "")


def endpoint() -> str:
    """The address of the S3 server, if it is another than Amazon's; else empty."""
    return said("AWS_ENDPOINT_URL_S3") or said("AWS_ENDPOINT_URL")


def region() -> str:
    """The region; empty if it is not said, and the bucket of Amazon's has to be asked for it."""
    return said("AWS_REGION") or said("AWS_DEFAULT_REGION") or ("us-east-1" if endpoint() else "")


def on_s3(address: str) -> bool:
    """Whether a path or URI is one of S3."""
    return address.partition("://")[0] in ("s3", "s3a")
