"""Files of a ledger batch that are read together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from sluicegate.bronze.parquet.stored import Stored


class ReadMode(StrEnum):
    """How the records of files are read.

    Attributes:
        NATIVE: by Spark's reader for the format.
        LINES: each text by itself.
        ELEMENTS: what is whole of damaged arrays, one by one.
        VARIANT: each record as one VARIANT.
        UNDECODED: each line as a corrupt record, from files of ``text_decoder``.
        RECORDS: each record of a CSV file by itself.
    """

    NATIVE = "native"
    LINES = "lines"
    ELEMENTS = "elements"
    VARIANT = "variant"
    UNDECODED = "undecoded"
    RECORDS = "records"


@dataclass(frozen=True)
class Group:
    """Files that are read together.

    Attributes:
        fields: fields of the files, those of JSON with the types of their values.
        paths: the files.
        mode: how they are read.
        whole: whether a text of the modes ``LINES`` and ``VARIANT`` is a whole file.
        stored: stored form of fields that Spark cannot read, by name.
        unreadable: reason of each unreadable field by name; these are not in ``fields``.
    """

    fields: list[StructField]
    paths: list[str]
    mode: ReadMode = ReadMode.NATIVE
    whole: bool = False
    stored: Mapping[str, Stored] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)


def group_by_key(paths: Iterable[str], key: Callable[[str], Any]) -> list[tuple[Any, list[str]]]:
    """Return the paths that have the same key, in order of their first."""
    groups: dict[Any, list[str]] = {}
    for path in paths:
        groups.setdefault(key(path), []).append(path)
    return list(groups.items())
