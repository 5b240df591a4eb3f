"""File systems and object stores: open and list local disk, S3, and whatever fsspec opens. No Spark.

Local disk is walked with ``os.scandir`` (see storage/local_files.py) and S3 listed by Arrow, since a landing folder
may hold a million files and fsspec makes a dictionary of each. S3 is also opened by Arrow: fsspec's s3fs pins its
dependencies so tightly that an ancient version is installed beside other AWS packages.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import fsspec
import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import fs as arrow

from sluicegate.storage import aws
from sluicegate.storage.local_files import Admits, Entry, Walk

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.timestamp("us", "UTC"), nullable=False),
    ]
)

# Files converted to Arrow at a time: a whole landing folder as Python objects would fill the memory.
AT_ONCE = 50_000

# Names of the modification time in fsspec's stores. Not "created": an object may be written again.
CHANGED = ("mtime", "LastModified", "last_modified", "updated", "modified")

# Range of Python's datetime, in microseconds since 1970, less a day at both ends for time zones. Disks have other
# times: milliseconds taken for seconds give the year 50000. In the ledger such a time would fail every read of it.
FIRST, LAST = -62_135_510_400_000_000, 253_402_214_400_000_000

# Why a link is passed over on a store that does not show its target.
LINK = "it is a link, and nobody can tell whether it leads out of the landing folder: land the file itself"

# Suffix of the empty objects by which older Hadoop and EMR mark folders.
FOLDER_MARKER = "_$folder$"

# Arrow's credential options and their variables, for overrides; otherwise Arrow finds credentials itself.
KEYS = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
}


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
        options: dict[str, Any] = {"tls_ca_file_path": aws.said("AWS_CA_BUNDLE") or None}
        options["region"] = aws.region() or _region_of(bucket)
        options |= {option: aws.current().get(name) or None for option, name in KEYS.items()}
        options["retry_strategy"] = arrow.AwsStandardS3RetryStrategy(max_attempts=aws.ARROW_ATTEMPTS)
        options |= {"connect_timeout": aws.CONNECT_SECONDS, "request_timeout": aws.REQUEST_SECONDS}
        if address := aws.endpoint():
            server = urlsplit(address)
            options |= {"endpoint_override": server.netloc, "scheme": server.scheme}
        super().__init__(arrow.S3FileSystem(**options))

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        # Only the scheme is removed: in a key, # and ? and % are ordinary characters.
        return str(path).split("://", 1)[-1].rstrip("/")

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, str]:
        return {"bucket": cls._strip_protocol(path).partition("/")[0]}


class S3A(S3):
    """The same under Spark's scheme."""

    protocol = "s3a"


OURS = {"s3": S3, "s3a": S3A}


@cache
def _region_of(bucket: str) -> str:
    return str(arrow.resolve_s3_region(bucket))


def options(address: str) -> dict[str, str] | None:
    """delta-rs storage options for an address; None unless it is on S3. Credentials are found as by Arrow.

    Its commits on S3 are PUTs with ``If-None-Match``, by its own default.
    """
    if not aws.on_s3(address):
        return None
    config = {name: value for name in KEYS.values() if (value := aws.current().get(name))}
    config |= {"AWS_REGION": aws.region() or _region_of(S3._get_kwargs_from_urls(address)["bucket"])}
    config |= {"max_retries": str(aws.ATTEMPTS), "retry_timeout": f"{aws.RETRY_SECONDS}s"}
    config |= {"connect_timeout": f"{aws.CONNECT_SECONDS}s", "timeout": f"{aws.REQUEST_SECONDS}s"}
    if server := aws.endpoint():
        config |= {"AWS_ENDPOINT_URL": server, "AWS_ALLOW_HTTP": str(server.startswith("http:")).lower()}
    return config


if importlib.util.find_spec("s3fs") is None:  # with s3fs installed, other code of this process may rely on it
    for _scheme, _class in OURS.items():
        fsspec.register_implementation(_scheme, _class, clobber=True)


def opened(address: str) -> tuple[Any, str]:
    """File system of a path or URI, and the path on it.

    Raises:
        OSError: the store cannot be reached.
    """
    ours = OURS.get(address.partition("://")[0])
    if ours is None:
        fs, root = _named(address) if _has_colons(address) else fsspec.core.url_to_fs(address)
        # Normalised as Spark will name the files, so that ledger and `source_file` agree.
        return fs, os.path.normpath(root) if "file" in fs.protocol else root
    return ours(**ours._get_kwargs_from_urls(address)), ours._strip_protocol(address)


def _has_colons(address: str) -> bool:
    """Whether ``::`` is part of a name, and not fsspec's URL chaining (``zip://x.json::s3://bucket/y.zip``)."""
    scheme, _, rest = address.rpartition("://")
    return "::" in rest and "::" not in scheme


def _named(address: str) -> tuple[Any, str]:
    """File system and path of an address that is not chained, though its names have ``::``."""
    scheme, there, _ = address.partition("://")
    of_store = fsspec.get_filesystem_class(scheme if there else "file")
    return of_store(**of_store._get_kwargs_from_urls(address)), of_store._strip_protocol(address)


def reader(address: str, mode: str = "rb", compression: str | None = None, **text: str) -> Any:
    """Like ``fsspec.open``, for a ``with``, but takes names literally: fsspec opens ``a`` for ``a::b``.

    Args:
        address: path or URI.
        mode: ``rb`` or ``rt``.
        compression: as fsspec names it; ``infer`` goes by the suffix.
        text: ``encoding`` and ``newline`` of a text file.
    """
    fs, path = opened(address)
    return fsspec.core.OpenFile(fs, path, mode, fsspec.core.get_compression(path, compression), **text)


def uri(fs: Any, path: str) -> str:
    """Address that both Spark and fsspec open: the path of a local file, the URI of any other."""
    return path if "file" in fs.protocol else str(fs.unstrip_protocol(path))


def is_same(one: str, other: str) -> bool:
    """Whether two addresses name one folder: on S3 by either scheme, on disk also through links and mounts."""
    (scheme, there, one_of_s3), (other_scheme, _, other_of_s3) = one.partition("://"), other.partition("://")
    if one == other or (scheme in OURS and other_scheme in OURS and one_of_s3 == other_of_s3):
        return True
    try:
        return not there and "://" not in other and os.path.samefile(one, other)
    except OSError:
        return False


def has_folders(address: str) -> bool:
    """Whether the store has empty folders; on S3 a folder vanishes with its last object."""
    return address.partition("://")[0] not in OURS


def files(address: str, admits: Admits = lambda _: True, left: dict[str, str] | None = None) -> pa.Table:
    """All files in a folder and the folders below it (schema ``FILES``), without folder markers.

    Non-files (a pipe, a dangling link) are left out, and so are local names that are not UTF-8.

    Args:
        address: the folder.
        admits: predicate on names below it, which decides the name of a file that has links. It filters no other file.
        left: receives what is passed over because it cannot be read or leads out of the folder, and why; the name of
            a folder ends in ``/``.

    Raises:
        FileNotFoundError: there is no such folder.
        OSError: the folder cannot be listed.
    """
    fs, root = opened(address)
    passed: dict[str, str] = {}
    if "file" in fs.protocol:
        found = _table(Walk(root, admits, passed).files())
    elif isinstance(fs, S3):
        found = _table(_on_s3(fs, root))
    else:
        fs.invalidate_cache(root)  # a long-lived process, such as a sensor, must not use a cached listing
        if not fs.isdir(root):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address)
        found = _table(_on(fs, root, passed))
    if left is not None:
        left |= {_shown(path): why for path, why in passed.items()}
    return found


def _on(fs: Any, root: str, left: dict[str, str]) -> Iterator[Entry]:
    """Files of a store that fsspec opens."""
    if type(fs).find is not AbstractFileSystem.find and getattr(type(fs), "_find", None) is not AsyncFileSystem._find:
        found = fs.find(root, detail=True).items()  # the store has a recursive listing
    else:
        found = _walked(fs, root, left)
    return ((uri(fs, path), int(info["size"]), _changed(fs, path, info)) for path, info in found)


def _walked(fs: Any, root: str, left: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Files, folder by folder: fsspec's own walk silently skips folders that it may not read."""
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            inside = fs.ls(folder, detail=True)
        except (FileNotFoundError, PermissionError) as error:
            if folder == root:
                raise
            if isinstance(error, PermissionError):  # else it was moved after its name was listed
                left[f"{uri(fs, folder)}/"] = error.strerror or str(error)
            continue
        for info in inside:
            path = info["name"].rstrip("/")
            if info["type"] == "directory":
                folders += [path] if path != folder else []
            elif info.get("islink") or info["type"] == "link":
                left[uri(fs, path)] = LINK
            else:
                yield path, info


def file(address: str) -> tuple[int, datetime] | None:
    """Size and modification time of one file, as in ``files``; None if there is none.

    Raises:
        OSError: it cannot be read.
    """
    fs, path = opened(address)
    if "file" in fs.protocol:
        try:
            about = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return (about.st_size, _moment(about.st_mtime_ns // 1000)) if stat.S_ISREG(about.st_mode) else None
    if isinstance(fs, S3):
        found = fs.fs.get_file_info(path)
        return (found.size, _moment(found.mtime_ns // 1000)) if found.type is arrow.FileType.File else None
    fs.invalidate_cache(fs._parent(path))
    try:
        info = fs.info(path)
    except FileNotFoundError:
        return None
    return None if info.get("type") == "directory" else (int(info["size"]), _moment(_changed(fs, path, info)))


def _sayable(microseconds: int) -> int:
    return min(max(microseconds, FIRST), LAST)


def _moment(microseconds: int) -> datetime:
    moment: datetime = pa.scalar(_sayable(microseconds), FILES.field("modification_time").type).as_py()
    return moment


def _table(entries: Iterable[Entry]) -> pa.Table:
    waiting = iter(entries)
    batches = []
    while some := list(islice(waiting, AT_ONCE)):
        paths, sizes, times = zip(*some, strict=True)
        stamps = pa.array(map(_sayable, times), pa.int64()).cast(FILES.field("modification_time").type)
        columns = [pa.array(paths, pa.string()), pa.array(sizes, pa.int64()), stamps]
        batches.append(pa.record_batch(columns, schema=FILES))
    return pa.Table.from_batches(batches, schema=FILES)


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


def _on_s3(fs: S3, root: str) -> Iterator[Entry]:
    for info in fs.fs.get_file_info(arrow.FileSelector(root, recursive=True)):
        marker = not info.size and info.path.endswith(FOLDER_MARKER)
        if info.type is arrow.FileType.File and not marker:
            yield uri(fs, info.path), info.size, info.mtime_ns // 1000


def _changed(fs: Any, path: str, info: dict[str, Any]) -> int:
    named = [info[key] for key in CHANGED if info.get(key) is not None]
    stamp = named[0] if named else fs.modified(path)
    if not isinstance(stamp, datetime):
        return round(float(stamp) * 1e6)
    stamp = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    return pa.scalar(stamp, FILES.field("modification_time").type).value  # type: ignore[no-any-return]
