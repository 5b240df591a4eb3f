"""Translate object-store errors of Arrow, delta-rs and Spark's S3A into ours.

They have no common types, so their texts are matched. No value of a row is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sluicegate.errors import SluicegateError, StoreRefused, StoreUnreachable, Where


@dataclass(frozen=True)
class StoreRefusal:
    """One thing that a store says no by.

    Attributes:
        signs: words of Arrow, delta-rs, Hadoop and Amazon's SDK, any of which shows this refusal.
        error: type of our error.
        message: what happened.
        hint: what to do.
    """

    signs: tuple[str, ...]
    error: type[SluicegateError]
    message: str
    hint: str


# In the order in which they are looked for: an error may have signs of several.
REFUSALS = (
    StoreRefusal(
        ("NO_SUCH_BUCKET", "NoSuchBucket", "UnknownStoreException"),
        StoreRefused,
        "the bucket does not exist",
        "check --landing and --lake, or create the bucket",
    ),
    StoreRefusal(
        ("ACCESS_DENIED", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken",
         "NoAuthWithAWSException", "lacked the necessary privileges", "INVALID_ACCESS_KEY_ID",
         "SIGNATURE_DOES_NOT_MATCH", "Status Code: 403", "instance metadata service", "//169.254.169.254/"),
        StoreRefused,
        "the object store denied access",
        "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the connection, and their permissions",
    ),
    StoreRefusal(
        ("RemoteFileChangedException",),
        SluicegateError,
        "another run committed first, so this one stopped",
        "nothing is lost: a new run continues after the last commit",
    ),
    StoreRefusal(
        ("NETWORK_CONNECTION", "INTERNAL_FAILURE", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "AWSStatus500Exception",
         "AWSServiceThrottledException", "AWSServiceIOException", "AWSClientIOException", "max_retries",
         "ConnectException", "SdkClientException", "ApiCallTimeout", "error sending request", "response body error",
         "operation timed out"),
        StoreUnreachable,
        "the object store does not answer, or returns errors",
        "check AWS_ENDPOINT_URL and the network; a new run continues after the last commit",
    ),
)  # fmt: skip

OF_S3 = re.compile(r"\bS3\b|\bAWS|s3a?://|amazon|Error performing [A-Z]+ https?://")
COLOURS = re.compile(r"\x1b\[\d*m")
ADDRESS = re.compile(r"s3a?://[^\s'\"`:;,]+")


def translate_error(error: BaseException, *, private: bool = False) -> SluicegateError | None:
    """Translate a store's error; None if it is not one.

    Args:
        error: the error.
        private: whether to drop all text that may hold a value of a row.
    """
    if isinstance(error, SluicegateError):
        return None
    text = COLOURS.sub("", str(error))
    if not OF_S3.search(text):
        return None
    refusal = next((refusal for refusal in REFUSALS if has_sign(text, refusal.signs)), None)
    if refusal is None:
        return None
    if private:
        return refusal.error(refusal.message, hint=refusal.hint)
    where = Where(file=next(iter(ADDRESS.findall(text)), None))
    return refusal.error(refusal.message, where=where, cause=_cause(text), hint=refusal.hint)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate a store's errors within the block; also a decorator.

    Raises:
        SluicegateError: of the type for the refusal; other errors pass unchanged.
    """
    try:
        yield
    except Exception as raised:
        of_store = translate_error(raised)
        if of_store is None:
            raise
        raise of_store from raised


def _cause(text: str) -> str:
    """Return the line of the cause, without Java's stack."""
    signs = [sign for refusal in REFUSALS for sign in refusal.signs]
    lines = [line.strip(" ↳\t") for line in text.splitlines() if not line.startswith("\tat ")]
    return next((line for line in lines if has_sign(line, signs)), lines[0])[:300]


def has_sign(error: object, signs: Iterable[str]) -> bool:
    """Return whether the text of an error has one of some signs."""
    text = str(error)
    return any(sign in text for sign in signs)
