"""Open files on local disk, S3 and whatever fsspec supports. No Spark.

Neither pyarrow nor fsspec is imported before an address needs it: a run with nothing to do, on local disk, needs
neither, and together they take longer to import than such a run does.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sluicegate.settings import demand_supported_store
from sluicegate.storage import aws

# Names of the modification time in fsspec's stores. Not "created": an object may be written again.
CHANGED = ("mtime", "LastModified", "last_modified", "updated", "modified")

# Range of Python's datetime, in microseconds since 1970, less a day at both ends for time zones. Disks have other
# times: milliseconds taken for seconds give the year 50000. In the ledger such a time would fail every read of it.
FIRST, LAST = -62_135_510_400_000_000, 253_402_214_400_000_000

EPOCH = datetime.fromtimestamp(0, UTC)


def options(address: str) -> dict[str, str] | None:
    """Return delta-rs' storage options for an address on S3; else None. Credentials are found as by Arrow.

    By default, delta-rs commits on S3 by PUT with ``If-None-Match``.
    """
    if not aws.is_on_s3(address):
        return None
    config = {name: value for name in aws.KEYS.values() if (value := aws.overrides().get(name))}
    config |= {"AWS_REGION": aws.region() or _region_of(address)}
    bounds = aws.bounds()
    config |= {"max_retries": str(bounds.attempts), "retry_timeout": f"{bounds.retry_seconds}s"}
    config |= {"connect_timeout": f"{bounds.connect_seconds}s", "timeout": f"{bounds.request_seconds}s"}
    if server := aws.endpoint():
        config |= {"AWS_ENDPOINT_URL": server, "AWS_ALLOW_HTTP": str(server.startswith("http:")).lower()}
    return config


def _region_of(address: str) -> str:
    from sluicegate.storage import s3

    return s3.region_of(s3.S3._get_kwargs_from_urls(address)["bucket"])


def to_local_path(address: str) -> str | None:
    """Return the path of a local absolute path, as ``open_store`` does; None for URIs and relative paths."""
    if address.startswith("/") and "://" not in address:
        return os.path.normpath(address)
    return None


def open_store(address: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path on it.

    Raises:
        LakeUnsupported: the store is not supported.
        OSError: the store cannot be reached.
    """
    demand_supported_store(address)
    import fsspec

    from sluicegate.storage import s3  # for a chained address, too: with the import it is known to fsspec

    scheme, separator, _ = address.partition("://")
    of_store = s3.OURS.get(scheme)
    if of_store is None and _has_colons(address):
        of_store = fsspec.get_filesystem_class(scheme if separator else "file")
    if of_store is None:
        fs, path = fsspec.core.url_to_fs(address)
    else:
        fs, path = of_store(**of_store._get_kwargs_from_urls(address)), of_store._strip_protocol(address)
    if "file" in fs.protocol:
        path = os.path.normpath(path)  # as Spark will name the files, so that ledger and `source_file` agree
    return fs, path


def _has_colons(address: str) -> bool:
    """Return whether ``::`` is part of a name, not fsspec's chaining (``zip://x.json::s3://bucket/y.zip``)."""
    scheme, _, path = address.rpartition("://")
    return "::" in path and "::" not in scheme


def reader(address: str, mode: str = "rb", compression: str | None = None, **text: str) -> Any:
    """Open a file like ``fsspec.open``, but with a literal name: fsspec opens ``a`` for ``a::b``.

    Args:
        address: path or URI.
        mode: ``rb`` or ``rt``.
        compression: as fsspec names it; ``infer`` goes by the suffix.
        text: ``encoding`` and ``newline`` of a text file.
    """
    import fsspec

    fs, path = open_store(address)
    return fsspec.core.OpenFile(fs, path, mode, fsspec.core.get_compression(path, compression), **text)


def uri(fs: Any, path: str) -> str:
    """Return the address that both Spark and fsspec open: the path of a local file, the URI of any other."""
    if "file" in fs.protocol:
        return path
    return str(fs.unstrip_protocol(path))


def is_same(first: str, second: str) -> bool:
    """Return whether two addresses are one folder: on S3 under either scheme, on disk also through links and mounts."""
    (_, separator, one_of_s3), (_, _, other_of_s3) = first.partition("://"), second.partition("://")
    if first == second or (aws.is_on_s3(first) and aws.is_on_s3(second) and one_of_s3 == other_of_s3):
        return True
    try:
        return not separator and "://" not in second and os.path.samefile(first, second)
    except OSError:
        return False


def has_folders(address: str) -> bool:
    """Return whether the store has empty folders; on S3 a folder vanishes with its last object."""
    return not aws.is_on_s3(address)


def file_facts(address: str) -> tuple[int, datetime] | None:
    """Return the size and modification time of a file, as a listing has them; None if it is missing.

    Raises:
        OSError: the file cannot be read.
    """
    if (local_path := to_local_path(address)) is not None:
        return _stat_disk(local_path)
    fs, path = open_store(address)
    if "file" in fs.protocol:
        return _stat_disk(path)
    if aws.is_on_s3(address):
        return _stat_s3(fs, path)
    fs.invalidate_cache(fs._parent(path))
    try:
        info = fs.info(path)
    except FileNotFoundError:
        return None
    if info.get("type") == "directory":
        return None
    return (int(info["size"]), _to_datetime(modification_time(fs, path, info)))


def read_text(address: str) -> str | None:
    """Return the text of a small file; None if there is none."""
    if file_facts(address) is None:  # not by opening it: a store that does not answer would have none
        return None
    fs, path = open_store(address)
    with suppress(FileNotFoundError), fs.open(path, "rb") as file:
        return str(file.read().decode(errors="replace"))
    return None


def digest(address: str) -> bytes:
    """Return the SHA-256 of the content of a file.

    Raises:
        OSError: the file cannot be read.
    """
    fs, path = open_store(address)
    sha256 = hashlib.sha256()
    with fs.open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            sha256.update(block)
    return sha256.digest()


def _stat_disk(path: str) -> tuple[int, datetime] | None:
    try:
        about = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(about.st_mode):
        return (about.st_size, _to_datetime(about.st_mtime_ns // 1000))
    return None


def _stat_s3(fs: Any, path: str) -> tuple[int, datetime] | None:
    from pyarrow.fs import FileType

    info = fs.fs.get_file_info(path)
    if info.type is FileType.File:
        return (info.size, _to_datetime(info.mtime_ns // 1000))
    return None


def clamp_time(microseconds: int) -> int:
    """Limit a file time, in microseconds since 1970 UTC, to Python's range."""
    return min(max(microseconds, FIRST), LAST)


def _to_datetime(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=clamp_time(microseconds))


def modification_time(fs: Any, path: str, info: dict[str, Any]) -> int:
    """Return a file's modification time from fsspec's description, in microseconds since 1970 UTC."""
    stamp = next((info[key] for key in CHANGED if info.get(key) is not None), None)
    if stamp is None:
        stamp = fs.modified(path)
    if not isinstance(stamp, datetime):
        return round(float(stamp) * 1e6)
    if not stamp.tzinfo:
        stamp = stamp.replace(tzinfo=UTC)
    return (stamp - EPOCH) // timedelta(microseconds=1)
