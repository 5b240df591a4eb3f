"""CSV reader that keeps to RFC 4180 where Spark's does not.

Files are checked before they are read. Spark reads the files that it parses correctly, which are nearly all. The others
are first split into records (see csv_records.py), each of which is parsed by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluicegate.bronze import landed_paths
from sluicegate.bronze.text import csv_check, csv_records
from sluicegate.bronze.text.csv_records import Grammar, records
from sluicegate.bronze.text.json_reader import ABOUT, CORRUPT_AS
from sluicegate.console import human_bytes
from sluicegate.definition import BronzeTable
from sluicegate.schema.evolution import Column
from sluicegate.spark import executors

# Compressions that Hadoop reads by a file's suffix and Python does not.
HADOOP_ONLY = (".deflate", ".snappy", ".lz4", ".zst")

# Maximum size of a file that is cut into records, which a task holds in memory several times.
MOST_BYTES = 128 << 20

# Files with more bytes than this in all are checked by the executors, however few they are.
MUCH = 64 << 20


@dataclass(frozen=True)
class CsvFiles:
    """Checks CSV files, and reads those that Spark would read in another way than RFC 4180 has it.

    Attributes:
        session: the Spark session.
        table: the table's definition.
        options: reader options as Spark takes them, with those of the dialect.
        sizes: bytes of files, as listed.
        damaged: unreadable files with the reason; filled here.
    """

    session: SparkSession
    table: BronzeTable
    options: Mapping[str, str]
    sizes: Mapping[str, int]
    damaged: dict[str, str]

    @cached_property
    def lower_options(self) -> dict[str, str]:
        """Options by lower-case names."""
        return {name.lower(): value for name, value in self.options.items()}

    @cached_property
    def _grammar(self) -> Grammar:
        return Grammar.from_options(self.lower_options)

    @property
    def has_plain_headers(self) -> bool:
        """Whether Python's csv reads the headers as Spark does."""
        plain = self._grammar.escape == self._grammar.quote
        return len(self._grammar.separator) == 1 and "linesep" not in self.lower_options and plain

    def headers(self, paths: Sequence[str], about: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
        """Return the header names of files; an empty name becomes Spark's.

        Args:
            paths: the files.
            about: facts from their first lines.
        """
        names = {path: about[path]["fields"] for path in paths if "fields" in about.get(path, {})}
        names |= {path: self._header_by_spark(path) for path in paths if path not in names}
        return {path: tuple(name or f"_c{n}" for n, name in enumerate(names[path])) for path in paths}

    def _header_by_spark(self, path: str) -> list[str]:
        reader = self.session.read.options(**{**self.options, "header": "false", "inferSchema": "false"})
        rows = landed_paths.load(reader, "csv", [path]).limit(1).collect()
        if not rows:
            return []
        return [name or "" for name in rows[0]]

    @property
    def _checks_files(self) -> bool:
        """Whether files are checked: not if the definition says how to read odd quotes."""
        return self.table.dialect == "rfc4180" and not csv_check.UNCHECKED & set(self.lower_options)

    def headers_and_trouble(self, paths: Sequence[str], *, header: bool) -> dict[str, dict[str, Any]]:
        """Return the header and trouble of each file that can be opened here (``csv_check.header_and_check``).

        Args:
            paths: the files.
            header: whether the files have a header that can be read here.
        """
        opened = [path for path in paths if not path.endswith(HADOOP_ONLY)]
        if not opened or not (header or self._checks_files):
            return {}
        much = sum(self.sizes.get(path, 0) for path in opened) > MUCH
        few = executors.FEW
        if much and self._checks_files:
            few = 0
        how = (self.lower_options, self._grammar.separator, header, self._checks_files)
        return executors.map_files(self.session, csv_check.header_and_check, opened, *how, few=few)

    def files_to_split(self, about: Mapping[str, Mapping[str, Any]]) -> set[str]:
        """Return the files that are split into records here; those that are too large are added to ``damaged``."""
        found = {path: facts["trouble"] for path, facts in about.items() if facts.get("trouble")}
        split: set[str] = set()
        for path, trouble in found.items():
            if not (obstacle := self._obstacle(trouble, self.sizes.get(path, 0))):
                split.add(path)
            elif not trouble["minor"]:
                self.damaged[path] = f"line {trouble['line']}: {trouble['why']}{obstacle}"
        return split

    def _obstacle(self, trouble: Mapping[str, Any], size: int) -> str:
        """Return why a file cannot be split into records; empty if it can."""
        most = min(MOST_BYTES, self.table.maxRecordBytes)
        if self.table.singleVariantColumn:
            return ", and a file with such a line cannot be read into a VARIANT"
        if self.lower_options.get("header", "").lower() == "true" and not trouble["begins"]:
            return ", and a quote in the header is not closed either"
        if max(trouble["characters"], size) > most:
            return f", and a file with such a line can have at most {human_bytes(most)}: correct the line"
        return ""

    def parse(self, paths: Sequence[str], columns: int, schema: StructType) -> DataFrame:
        """Parse split files by a schema that ends with the field of the corrupt record.

        Args:
            paths: the files.
            columns: number of values of a record.
            schema: names and types of the values, and the field of the corrupt record.
        """
        texts = landed_paths.load(self.session.read.option("wholetext", "true"), "text", paths)
        each = texts.select(F.explode(self._split(columns)).alias("record"), texts["_metadata"].alias(ABOUT))
        options = {
            **self.options, "multiLine": "true", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS,
        }  # fmt: skip
        text, sound = F.col("record.text"), F.col("record.sound")
        parsed = F.from_csv(F.when(sound, text), schema.toDDL(), options).alias("parsed")
        both = each.select(parsed, text.alias("text"), sound.alias("sound"), ABOUT)
        names = [field.name for field in schema if field.name != CORRUPT_AS]
        fields = [F.col("parsed").getField(name).alias(name) for name in names]
        corrupt = f"if(sound AND parsed.{CORRUPT_AS} IS NULL, NULL, text)"
        return both.select(*fields, F.expr(corrupt).alias(CORRUPT_AS), ABOUT)

    def _split(self, columns: int) -> Expression:
        """Split files into records on executors that need not have this package."""
        grammar = self._grammar
        header = self.lower_options.get("header", "").lower() == "true"

        def split(content: Any) -> list[tuple[str, bool]]:
            return records(bytes(content), grammar, columns, header, "utf-8-sig")

        cloudpickle.register_pickle_by_value(csv_records)  # type: ignore[no-untyped-call]
        try:
            # Spark would take the hints of a function's types for those of a pandas one, and warn.
            kind = "array<struct<text: string, sound: boolean>>"
            function = F.udf(lambda content: split(content), kind, useArrow=False)
            return function(F.col("value").cast("binary"))
        finally:
            cloudpickle.unregister_pickle_by_value(csv_records)  # type: ignore[no-untyped-call]


def make_fields_distinct(columns: Sequence[Column]) -> list[Column]:
    """Make the field names of columns distinct: the second ``a`` is rescued as ``a_2``."""
    taken = {column.field for column in columns}
    seen: set[str] = set()
    distinct = []
    for column in columns:
        name = column.field
        if name in seen:
            name = next(f"{name}_{n}" for n in itertools.count(2) if f"{name}_{n}" not in taken)
        seen.add(column.field)
        taken.add(name)
        distinct.append(replace(column, field=name))
    return distinct


def padding_warnings(names: Iterable[str]) -> list[str]:
    """Return a warning about header names with spaces around them; empty if there are none."""
    if not (quoted := ", ".join(f'"{name}"' for name in sorted(names))):
        return []
    return [
        f"names in the header have spaces around them ({quoted}), so their values are rescued: "
        "`options: {ignoreLeadingWhiteSpace: true}` or `columnNames: normalized` strips the spaces"
    ]
