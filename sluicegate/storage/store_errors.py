"""Translation of object-store errors of Arrow, delta-rs and Spark's S3A into our own.

They have no common types, so their texts are matched. No value of a row is passed on.
"""

from __future__ import annotations

import re

from sluicegate.errors import SluicegateError, StoreRefused, StoreUnreachable, Where

# Signs in the texts of Arrow, delta-rs, Hadoop and Amazon's SDK, matched in this order.
GONE = ("NO_SUCH_BUCKET", "NoSuchBucket", "UnknownStoreException")
DENIED = ("ACCESS_DENIED", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken",
          "NoAuthWithAWSException", "lacked the necessary privileges", "INVALID_ACCESS_KEY_ID",
          "SIGNATURE_DOES_NOT_MATCH", "Status Code: 403", "instance metadata service")  # fmt: skip
OVERTAKEN = ("RemoteFileChangedException",)
FAILING = ("NETWORK_CONNECTION", "INTERNAL_FAILURE", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "AWSStatus500Exception",
           "AWSServiceThrottledException", "AWSServiceIOException", "AWSClientIOException", "max_retries",
           "ConnectException", "SdkClientException", "ApiCallTimeout", "error sending request")  # fmt: skip

OF_S3 = re.compile(r"\bS3\b|\bAWS|s3a?://|amazon|Error performing [A-Z]+ https?://")
COLOURS = re.compile(r"\x1b\[\d*m")
ADDRESS = re.compile(r"s3a?://[^\s'\"`:;,]+")


def readable(error: BaseException, *, private: bool = False) -> SluicegateError | None:
    """Translate a store's error; None if it is not one.

    Args:
        error: the error.
        private: whether to pass on no text that may hold a value of a row.
    """
    if isinstance(error, SluicegateError):
        return None
    text = COLOURS.sub("", str(error))
    if not OF_S3.search(text):
        return None
    where = Where(file=None if private else next(iter(ADDRESS.findall(text)), None))
    cause = "" if private else _cause(text)
    if any(sign in text for sign in GONE):
        return StoreRefused(
            "there is no such bucket", where=where, cause=cause, hint="look at --landing and --lake, or make the bucket"
        )
    if any(sign in text for sign in DENIED):
        return StoreRefused(
            "the object store refuses access",
            where=where,
            cause=cause,
            hint="look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the connection, and at what they are allowed",
        )
    if any(sign in text for sign in OVERTAKEN):
        return SluicegateError(
            "another run committed first, so this one stopped",
            where=where,
            cause=cause,
            hint="nothing is lost: a new run goes on where the last commit ended",
        )
    if any(sign in text for sign in FAILING):
        return StoreUnreachable(
            "the object store does not answer, or fails",
            where=where,
            cause=cause,
            hint="look at AWS_ENDPOINT_URL and the network; a new run goes on where the last commit ended",
        )
    return None


def _cause(text: str) -> str:
    """First line of the text with one of the signs, without Java's stack trace, at most 300 characters."""
    signs = GONE + DENIED + OVERTAKEN + FAILING
    lines = [line.strip(" ↳\t") for line in text.splitlines() if not line.startswith("\tat ")]
    return next((line for line in lines if any(sign in line for sign in signs)), lines[0])[:300]
