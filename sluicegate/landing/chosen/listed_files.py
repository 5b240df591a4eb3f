"""Lists of files that another pipeline has read, and their names below a landing folder.

A list is text, CSV, JSON or Parquet, as people get it from ``cloud_files_state`` of Databricks or from the column
``_metadata.file_path`` of a table: one file, or the folder of part files that Spark writes.
"""

from __future__ import annotations

import csv
import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from typing import Any
from urllib.parse import unquote

from sluicegate.errors import UserError, Where
from sluicegate.storage import filesystems, listings

# Names that the column of the paths has where nobody says its name: that of cloud_files_state, and those of people who
# select _metadata.file_path or input_file_name().
COLUMNS = ("path", "file_path", "source_file", "_metadata.file_path", "input_file_name()")

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True)
class Prefix:
    """What the paths of a list begin with, and what the same folder is called here."""

    former: str
    present: str

    def present_path(self, path: str) -> str | None:
        """Return the path below the present prefix, None if it does not begin with the former one."""
        former = normalize_path(self.former).rstrip("/")
        if path != former and not path.startswith(f"{former}/"):
            return None
        if "://" in self.present:
            present = self.present
        else:
            present = os.path.abspath(self.present)
        return normalize_path(present).rstrip("/") + path[len(former) :]


def prefixes(former: Sequence[str], present: Sequence[str]) -> tuple[Prefix, ...]:
    """Return pairs of prefixes, those with the longest former one first.

    Raises:
        UserError: one of them has no partner, or is empty.
    """
    if len(former) != len(present):
        raise UserError(
            f"expected as many --to-prefix as --from-prefix, got {len(present)} and {len(former)}",
            hint="give one --to-prefix for each --from-prefix, in the same order",
        )
    if not all((*former, *present)):
        hint = "write the folder that the paths start with, for example dbfs:/mnt/landing"
        raise UserError("a prefix is empty", hint=hint)
    pairs = [Prefix(*pair) for pair in zip(former, present, strict=True)]
    return tuple(sorted(pairs, key=lambda pair: -len(pair.former)))


def normalize_path(path: str) -> str:
    """Spell a path in the one way in which paths are compared: ``s3://`` for ``s3a://``, ``/a`` for ``file:///a``."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if path.startswith("dbfs:"):
        return "dbfs:/" + path.removeprefix("dbfs:").lstrip("/")
    return re.sub(r"^s3[an]://", "s3://", path)


@dataclass(frozen=True)
class Landing:
    """A landing folder by all of its names.

    Attributes:
        folder: as paths in the ledger begin.
        address: as the definition has it.
        mapped: prefixes of the list that are called otherwise here.
        resolved: folders of listed paths by what they are without links, as far as they were asked for.
    """

    folder: str
    address: str
    mapped: tuple[Prefix, ...] = ()
    resolved: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        names = [normalize_path(self.folder), normalize_path(self.address)]
        if filesystems.to_local_path(self.folder) is not None:
            names.append(os.path.realpath(self.folder))
        return tuple(dict.fromkeys(name.rstrip("/") + "/" for name in names))

    def names_below(self, listed: str) -> tuple[str, ...]:
        """Return the names below the folder that a path of a list can mean, none if it is outside.

        A path with ``%`` can mean two names: Spark percent-encodes its paths, and other programs do not.
        """
        path = self._present_path(normalize_path(listed))
        readings = dict.fromkeys((path, unquote(path)))
        return tuple(dict.fromkeys(name for reading in readings if (name := self._name_below(reading)) is not None))

    def _present_path(self, path: str) -> str:
        for prefix in self.mapped:
            if (present := prefix.present_path(path)) is not None:
                return present
        return path

    def _name_below(self, path: str) -> str | None:
        if "://" not in path and not path.startswith(("/", "dbfs:")):
            return posixpath.normpath(path)
        if path.startswith("/"):
            path = os.path.normpath(path)
        for folder in self._folders:
            if path.startswith(folder):
                return path[len(folder) :]
        if path.startswith("/"):
            return self._name_through_links(path)
        return None

    def _name_through_links(self, path: str) -> str | None:
        above, _, name = path.rpartition("/")
        if above not in self.resolved:
            self.resolved[above] = os.path.realpath(above)
        real = f"{self.resolved[above]}/{name}"
        return next((real[len(folder) :] for folder in self._folders if real.startswith(folder)), None)


def paths(address: str, column: str | None = None) -> list[str]:
    """Return the paths of a list without duplicates, in the order of the list.

    Args:
        address: path or URI of the list; its format is that of its name: ``.csv``, ``.json`` (an array, or a value on
            each line), ``.parquet``, and any other is text with a path on each line. Of a folder, all files in it.
        column: the column with the paths; None for a column of ``COLUMNS``, or the only column.

    Raises:
        UserError: there is no list, it is empty, it cannot be read, or it is not clear which column is meant.
    """
    try:
        listed = [path for part in _parts(address) for path in _part_paths(part, column)]
    except (OSError, ValueError, ImportError, csv.Error) as error:  # Arrow's are ValueErrors, too
        hint = "a list is CSV, JSON or Parquet if its name ends so, or else text with one path on each line"
        where = Where(file=address)
        raise UserError("the list of files cannot be read", where=where, cause=str(error), hint=hint) from error
    if not listed:
        hint = "pass a list with at least one path"
        raise UserError("the list of files is empty", where=Where(file=address), hint=hint)
    return list(dict.fromkeys(listed))


def _parts(address: str) -> list[str]:
    fs, root = filesystems.open_store(address)
    if not fs.isdir(root):
        return [address]
    parts: list[str] = listings.files(address)["path"].to_pylist()
    return sorted(part for part in parts if not part.rpartition("/")[2].startswith((".", "_")))


def _part_paths(part: str, column: str | None) -> Iterator[str]:
    ending = _ending(part)
    if ending == "parquet":
        return _parquet_paths(part, column)
    with filesystems.reader(part, "rt", "infer", encoding="utf-8-sig", newline="") as file:
        text: str = file.read()
    if ending == "csv":
        return _csv_paths(text, part, column)
    if ending in ("json", "jsonl", "ndjson"):
        return _json_paths(text, part, column)
    return iter(_lines(text))


def _lines(text: str) -> list[str]:
    """Return lines that are not blank; only a line feed ends one, as names may have what Unicode takes for an end."""
    return [line.removesuffix("\r") for line in text.split("\n") if line.strip()]


def _ending(part: str) -> str:
    name = part.rpartition("/")[2].lower()
    for compression in _COMPRESSED:
        name = name.removesuffix(compression)
    return name.rpartition(".")[2]


def _parquet_paths(part: str, column: str | None) -> Iterator[str]:
    from pyarrow import parquet

    fs, path = filesystems.open_store(part)
    with fs.open(path, "rb") as file:
        table = parquet.read_table(file)
    return _values(table[_path_column(table.column_names, part, column)].to_pylist(), part)


def _csv_paths(text: str, part: str, column: str | None) -> Iterator[str]:
    rows = [row for row in csv.reader(StringIO(text, newline="")) if row]
    if not rows:
        return iter(())
    header = rows[0]
    if column is None and len(header) == 1 and header[0].lower() not in COLUMNS:
        return _values([row[0] for row in rows], part)  # Spark writes no header unless it is to
    place = header.index(_path_column(header, part, column))
    short = next((number for number, row in enumerate(rows, 1) if len(row) <= place), None)
    if short is not None:
        raise ValueError(f"record {short} of {part} has no {header[place]}")
    return _values([row[place] for row in rows[1:]], part)


def _json_paths(text: str, part: str, column: str | None) -> Iterator[str]:
    is_array = text.lstrip().startswith("[")
    if is_array:
        values = json.loads(text)
    else:
        values = list(map(json.loads, _lines(text)))
    objects = [value for value in values if isinstance(value, dict)]
    if not objects:
        return _values(values, part)
    name = _path_column(list(dict.fromkeys(key for value in objects for key in value)), part, column)
    return _values([value.get(name) if isinstance(value, dict) else value for value in values], part)


def _path_column(names: Sequence[str], part: str, column: str | None) -> str:
    """Return the column with the paths.

    Raises:
        UserError: there is none, or it is not clear which.
    """
    where = Where(file=part)
    if column is not None:
        if column not in names:
            hint = f"its columns are {', '.join(names)}"
            raise UserError(f"unknown column {column} of the list", where=where, hint=hint)
        return column
    usual = [name for name in names if name.lower() in COLUMNS]
    candidates = usual or names
    if len(candidates) != 1:
        raise UserError(
            f"several columns of the list may contain the paths: {', '.join(candidates)}",
            where=where,
            hint="choose one with --column",
        )
    return candidates[0]


def _values(values: Iterable[Any], part: str) -> Iterator[str]:
    for number, value in enumerate(values, 1):
        if not isinstance(value, str) or not value:
            raise ValueError(f"record {number} of {part} is not a path: {json.dumps(value, default=str)}")
        yield value
