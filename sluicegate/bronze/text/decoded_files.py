"""Keep UTF-8 copies of files that Spark would misread, while a ledger batch is read.

Files in other encodings are read from copies. UTF-8 files are read directly, with a cheap condition that stops the job
at a possibly undecodable byte (``UNSURE_OF_BYTES``). The batch is then read again thoroughly: its files are examined
byte by byte, and those with such bytes are read from copies without the affected records.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, VariantType

from sluicegate.bronze import landed_paths
from sluicegate.bronze.landed_paths import is_odd, spark_uri
from sluicegate.bronze.text import text_decoder
from sluicegate.bronze.text.json_reader import ABOUT, CORRUPT_AS
from sluicegate.bronze.text.text_decoder import UNSURE_OF_BYTES, Decoding
from sluicegate.console import say
from sluicegate.definition import BronzeTable, encodings
from sluicegate.definition.tables.column_names import normalize_name
from sluicegate.errors import SourceError, Where
from sluicegate.lake import layout
from sluicegate.spark import executors
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.storage import filesystems

TEXTS = ("csv", "json", "text", "xml")

# What Spark writes for bytes that are no text; a text may have it, too.
REPLACED = "\ufffd"

# Bytes of files that are looked through here, and not by executors.
SMALL = 16 * 1024 * 1024

# Options of CSV that are also about writing it.
OF_CSV = ("sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "nullvalue", "emptyvalue")

# Copies of runs that were killed are removed when they are older.
LEFT_OVER = timedelta(days=1)
STARTED = "%Y%m%dT%H%M%S"


@dataclass
class DecodedFiles:
    """Copies of landed files, with the facts about each file.

    Attributes:
        session: the Spark session.
        folder: folder of the copies.
        thorough: whether UTF-8 files are examined, too.
        results: results of ``text_decoder.decode`` by path.
        sentinel: text that occurs in no value.
    """

    session: SparkSession
    folder: str
    thorough: bool = False
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    sentinel: str = field(default_factory=lambda: f"undecoded{uuid.uuid4().hex}x")

    def is_sure_of(self, table: BronzeTable) -> bool:
        """Return whether each file of a table is certainly UTF-8, or has been decoded."""
        is_partial = bool(table.skipped_lines or table.records)
        return self.thorough or is_partial or encoding_of(table) != "UTF-8"

    def is_doubted(self, error: BaseException, table: BronzeTable) -> bool:
        """Return whether an error of reading requires a thorough second read; from then on all reads are.

        A file that cannot be read at all may end the job before such bytes in another file are reached. Spark's XML
        parser reports them in its own words, as its types do for JSON that is nested too deeply.
        """
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        of_spark = table.format in ("xml", "json") and isinstance(error, (PySparkException, Py4JError))
        doubted = not self.thorough and (of_spark or UNSURE_OF_BYTES in str(error))
        self.thorough = True
        return doubted

    def paths_to_read(self, name: str, table: BronzeTable, paths: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
        """Return the paths to read for some files: their own, or those of their copies.

        Raises:
            SourceError: a file cannot be read, or its header has undecodable bytes.
        """
        examined = self._files_to_examine(table, paths)
        if not examined:
            return list(paths)
        self._decode(name, table, [path for path in examined if path not in self.results], sizes)
        for path in examined:
            if reason := self.results[path].get("error"):
                raise _unreadable(name, table, path, reason)
        return [self.results.get(path, {}).get("copy") or path for path in paths]

    def _files_to_examine(self, table: BronzeTable, paths: Sequence[str]) -> Sequence[str]:
        """Return the files that may need copies: all, or those whose names Spark takes for patterns."""
        if table.format not in TEXTS:
            return []
        if self.is_sure_of(table):
            return paths
        packed = {path for path in paths if landed_paths.is_packed(path)}
        odd = _is_searched_for_fields(table)
        return [path for path in paths if path in packed or (odd and is_odd(path))]

    def _decode(self, name: str, table: BronzeTable, paths: Sequence[str], sizes: Mapping[str, int]) -> None:
        """Examine files, copy those that need it, and report undecodable bytes."""
        few = 0
        if sum(sizes.get(path, 0) for path in paths) <= SMALL:
            few = executors.FEW
        self.results |= executors.map_files(self.session, text_decoder.decode, paths, *_decoding(self, table), few=few)
        for path in paths:
            if first := self.results[path].get("first"):
                say(f"  bronze {name:<28} {path}: {first}: such records are stored as corrupt")

    def demand_decoded(self, name: str, table: BronzeTable, headers: Mapping[str, Sequence[str]]) -> None:
        """Refuse files with an undecodable byte in their header, which names the columns.

        Args:
            name: the table's name, for messages.
            table: its definition.
            headers: header names of files and copies, by path.

        Raises:
            SourceError: a header has an undecodable byte.
        """
        for place, names in headers.items():
            if any(self.sentinel in column for column in names):
                path = self.landed_path(place)
                raise _unreadable(name, table, path, f"its header cannot be decoded: {self.results[path]['first']}")

    def bad_records(self, paths: Sequence[str]) -> list[str]:
        """Return the files with the bad records of some files."""
        return [bad for path in paths if (bad := self.results.get(path, {}).get("bad"))]

    def has_sentinels(self, paths: Sequence[str]) -> bool:
        """Return whether one of the copies has sentinels."""
        tainted = {result["copy"] for result in self.results.values() if result.get("sentinels")}
        return not tainted.isdisjoint(paths)

    def landed_path(self, path: str) -> str:
        """Return the landed file of a copy."""
        return next((p for p, result in self.results.items() if path in (result.get("copy"), result.get("bad"))), path)

    def restore_names(self, raw: DataFrame, about: Column, paths: Sequence[str]) -> tuple[DataFrame, Column]:
        """Return the records with the metadata of the landed files in place of the copies'."""
        read = set(paths)
        copied = {
            _last_part(place): (spark_uri(landed), result["time"])
            for landed, result in self.results.items()
            for place in (result.get("copy"), result.get("bad"))
            if place is not None and place in read
        }
        if not copied:
            return raw, about
        rows = [(place, path, micros) for place, (path, micros) in copied.items()]
        former = F.broadcast(self.session.createDataFrame(rows, "place string, path string, micros long"))
        joined = raw.join(former, F.substring_index(about["file_path"], "/", -1) == former["place"], "left")
        path = F.coalesce(former["path"], about["file_path"])
        time = F.coalesce(F.timestamp_micros(former["micros"]), about["file_modification_time"])
        return joined, F.struct(path.alias("file_path"), time.alias("file_modification_time"))

    def flag_sentinels(self, raw: DataFrame, form: str, options: Mapping[str, str]) -> DataFrame:
        """Mark records with a sentinel as corrupt; their text has ``\\xfc`` for the byte 0xFC."""
        columns = [name for name in raw.columns if name not in (CORRUPT_AS, ABOUT)]
        record = F.struct(*[F.col(quote_name(name)) for name in columns])
        as_json = F.to_json(record)
        kinds = {type(field.dataType).__name__ for field in raw.schema}
        text = as_json
        if form == "csv" and "VariantType" not in kinds:
            text = F.to_csv(record, {name: value for name, value in options.items() if name.lower() in OF_CSV})
        elif form == "xml" and "VariantType" not in kinds:
            row = next((value for name, value in options.items() if name.lower() == "rowtag"), "ROW")
            text = F.to_xml(record, {"rowTag": row})
        corrupt = F.coalesce(CORRUPT_AS, text)
        all_texts = F.concat_ws("", F.col(CORRUPT_AS), as_json)
        tainted = F.contains(all_texts, F.lit(self.sentinel))
        shown = F.regexp_replace(corrupt, f"{self.sentinel}([0-9a-f]{{2}})z", r"\\x$1")
        values = {name: F.when(~tainted, F.col(quote_name(name))) for name in columns}
        return raw.withColumns({**values, CORRUPT_AS: F.when(tainted, shown).otherwise(F.col(CORRUPT_AS))})


def _unreadable(name: str, table: BronzeTable, path: str, reason: str) -> SourceError:
    return SourceError(
        f"a {table.format} file cannot be read: {path}",
        where=Where(table=name, file=path),
        cause=reason,
        hint="correct the options of the table, or land a right file under the same name, then run again",
    )


def _last_part(place: str) -> str:
    return place.rpartition("/")[2]


def encoding_of(table: BronzeTable) -> str:
    """Return Java's name of the encoding of a table's files."""
    options = table.options_by_lower_name
    codec = encodings.find(options.get("encoding", options.get("charset", "UTF-8"))) or encodings.UTF_8
    return codec.name


def options_for_copies(options: Mapping[str, str]) -> dict[str, str]:
    """Return the reader options without those that are settled once a file has been copied, or needs no copy."""
    return {name: value for name, value in options.items() if name.lower() not in ("encoding", "charset", "skiprows")}


def guard_value(value: Column, condition: Column) -> Column:
    """Return a value that ends the job where a condition holds."""
    return F.when(condition, F.raise_error(F.lit(UNSURE_OF_BYTES))).otherwise(value)


def guarded_texts(schema: StructType) -> dict[str, Column]:
    """Return the text columns of a schema, each ``guard_value`` that it has no U+FFFD."""
    texts: dict[str, Column] = {}
    for field_ in schema:
        value = F.col(quote_name(field_.name))
        if isinstance(field_.dataType, (StringType, VariantType)):
            text = value
            if isinstance(field_.dataType, VariantType):
                text = F.to_json(value)
            texts[field_.name] = guard_value(value, F.contains(text, F.lit(REPLACED)))
    return texts


@contextmanager
def open_copies(session: SparkSession, target: str, *, thorough: bool = False) -> Iterator[DecodedFiles]:
    """Provide decoded copies of files of a bronze table, beside the tables of its pipeline.

    Args:
        session: the Spark session.
        target: address of the table.
        thorough: as in ``DecodedFiles``.
    """
    pipeline, name = target.rsplit("/", 2)[0], _last_part(target)
    home = f"{pipeline}/_state/{name}_decoded"
    decoded = DecodedFiles(session, f"{home}/{datetime.now(UTC).strftime(STARTED)}-{uuid.uuid4().hex}", thorough)
    try:
        yield decoded
    finally:
        if any(result.get("copy") for result in decoded.results.values()):
            _clear(home, _last_part(decoded.folder))


def _clear(home: str, own_folder: str) -> None:
    """Remove the copies of a run, and those that killed runs left."""
    fs, root = filesystems.open_store(layout.address(home))
    oldest = (datetime.now(UTC) - LEFT_OVER).strftime(STARTED)
    with suppress(OSError):
        for name in [_last_part(str(path)) for path in fs.ls(root, detail=False)]:
            if name == own_folder or name < oldest:
                fs.rm(f"{root}/{name}", recursive=True)
        if not fs.ls(root, detail=False):
            fs.rmdir(root)


def _is_searched_for_fields(table: BronzeTable) -> bool:
    """Return whether Spark infers the fields or types of files by names that it takes for patterns."""
    if table.format == "xml":
        return True
    return table.format == "csv" and (table.inferColumnTypes or not table.has_option("header"))


def _decoding(decoded: DecodedFiles, table: BronzeTable) -> Decoding:
    options = table.options_by_lower_name
    several, header = table.has_option("multiline"), table.format == "csv" and table.has_option("header")
    columns: list[str] = []
    if header:
        columns = [normalize_name(name) for name in table.declared_names if name not in table.partitionColumns]
    return Decoding(
        encoding=encoding_of(table),
        form=table.format,
        whole=table.has_option("wholetext") or (table.format == "json" and several),
        several=table.format == "xml" or (table.format == "csv" and several),
        separator=options.get("linesep", ""),
        header=header,
        comment=options.get("comment", "") if table.format == "csv" else "",
        folder=decoded.folder,
        sentinel=decoded.sentinel,
        renames=_is_searched_for_fields(table),
        skipped=table.skipped_lines,
        options={name.lower(): value for name, value in table.reader_options.items()},
        columns=columns,
        records=table.path_of_records,
    )
