"""S3 file system for fsspec, by Arrow's client. Imported on use: pyarrow and fsspec take 0.2 s.

fsspec's own s3fs pins its dependencies so tightly that an ancient version is installed beside other AWS packages.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import fs as arrow

from sluicegate.storage import aws


class S3(ArrowFSWrapper):  # type: ignore[misc]
    """Arrow's S3 file system for fsspec.

    Credentials come from AWS's default chain: the environment (``AWS_ACCESS_KEY_ID`` …), ``~/.aws``, or the machine's
    role. ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL`` names another server than Amazon's, and ``AWS_REGION`` or
    ``AWS_DEFAULT_REGION`` the region. Variables that are ``given`` override the environment.
    """

    protocol = "s3"
    root_marker = ""
    cachable = False  # fsspec would reuse the first instance, with its old credentials and endpoint

    def __init__(self, bucket: str = "") -> None:
        options: dict[str, Any] = {"tls_ca_file_path": aws.read_variable("AWS_CA_BUNDLE") or None}
        options["region"] = aws.region() or region_of(bucket)
        options |= {option: aws.overrides().get(name) or None for option, name in aws.KEYS.items()}
        bounds = aws.bounds()
        options["retry_strategy"] = arrow.AwsStandardS3RetryStrategy(max_attempts=bounds.arrow_attempts)
        options |= {"connect_timeout": bounds.connect_seconds, "request_timeout": bounds.request_seconds}
        if address := aws.endpoint():
            server = urlsplit(address)
            options |= {"endpoint_override": server.netloc, "scheme": server.scheme}
        super().__init__(arrow.S3FileSystem(**options))

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return list(map(cls._strip_protocol, path))
        # Only the scheme is removed: in a key, # and ? and % are ordinary characters.
        return str(path).split("://", 1)[-1].rstrip("/")

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, str]:
        return {"bucket": cls._strip_protocol(path).partition("/")[0]}


class S3A(S3):
    """File system of the same objects under Spark's scheme."""

    protocol = "s3a"


OURS = {"s3": S3, "s3a": S3A}


@cache
def region_of(bucket: str) -> str:
    """Return the region of a bucket at Amazon."""
    return str(arrow.resolve_s3_region(bucket))


if importlib.util.find_spec("s3fs") is None:  # with s3fs installed, other code of this process may rely on it
    for _scheme, _class in OURS.items():
        fsspec.register_implementation(_scheme, _class, clobber=True)
