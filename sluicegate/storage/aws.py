"""S3 endpoint, region and credentials, from the URI and the ``AWS_*`` variables.

Needs the standard library only, since DAG files are parsed with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# Retries of a failing store, for a minute at most: a longer wait looks like a hanging run.
ATTEMPTS = 8
ARROW_ATTEMPTS = 5  # exponential backoff: 8 take a minute
RETRY_SECONDS = 60
CONNECT_SECONDS = 5
REQUEST_SECONDS = 60

# The same where somebody looks on and nothing is written: who asks again costs less than who waits.
BRIEF_ATTEMPTS = 2
BRIEF_RETRY_SECONDS = 3
BRIEF_CONNECT_SECONDS = 2
BRIEF_REQUEST_SECONDS = 10  # with its bytes: a store may be slow and well


@dataclass(frozen=True)
class Bounds:
    """Time limits of requests to a store.

    Attributes:
        attempts: number of retries by delta-rs.
        arrow_attempts: number of attempts by Arrow.
        retry_seconds: seconds after the first request for which delta-rs begins another one.
        connect_seconds: seconds for a connection.
        request_seconds: seconds for one request, including its response body.
    """

    attempts: int
    arrow_attempts: int
    retry_seconds: int
    connect_seconds: int
    request_seconds: int


# Arrow's credential options and their variables, for overrides; otherwise Arrow finds credentials itself.
KEYS = {
    "access_key": "AWS_ACCESS_KEY_ID", "secret_key": "AWS_SECRET_ACCESS_KEY", "session_token": "AWS_SESSION_TOKEN",
}  # fmt: skip

_GIVEN: ContextVar[dict[str, str]] = ContextVar("given", default={})  # noqa: B039 (never changed in place)

_BRIEF: ContextVar[bool] = ContextVar("brief", default=False)


@contextmanager
def brief_requests() -> Iterator[None]:
    """Limit the time of this thread's requests within the block; also a decorator.

    For pages and commands that only read. A file system or table opened within the block keeps these limits.
    """
    before = _BRIEF.set(True)
    try:
        yield
    finally:
        _BRIEF.reset(before)


def bounds() -> Bounds:
    """Return the time limits of this thread's requests."""
    if _BRIEF.get():
        return Bounds(BRIEF_ATTEMPTS, BRIEF_ATTEMPTS, BRIEF_RETRY_SECONDS, BRIEF_CONNECT_SECONDS, BRIEF_REQUEST_SECONDS)
    return Bounds(ATTEMPTS, ARROW_ATTEMPTS, RETRY_SECONDS, CONNECT_SECONDS, REQUEST_SECONDS)


@contextmanager
def override_variables(variables: dict[str, str]) -> Iterator[None]:
    """Override environment variables within the block, in this thread.

    For processes that use the stores of several users at once; all others set their environment.
    """
    before = _GIVEN.set(variables)
    try:
        yield
    finally:
        _GIVEN.reset(before)


def overrides() -> dict[str, str]:
    """Return the overrides of this thread."""
    return _GIVEN.get()


def read_variable(name: str) -> str:
    """Return the value of a variable, overridden or from the environment; empty if it is not set."""
    return overrides().get(name, os.environ.get(name, ""))


def endpoint() -> str:
    """Return the endpoint of the S3 server if it is not Amazon's; else empty."""
    return read_variable("AWS_ENDPOINT_URL_S3") or read_variable("AWS_ENDPOINT_URL")


def region() -> str:
    """Return the region; empty if it is not set, and must be looked up from the bucket at Amazon."""
    return read_variable("AWS_REGION") or read_variable("AWS_DEFAULT_REGION") or ("us-east-1" if endpoint() else "")


def is_on_s3(address: str) -> bool:
    """Return whether an address is on S3."""
    return address.partition("://")[0] in ("s3", "s3a")
