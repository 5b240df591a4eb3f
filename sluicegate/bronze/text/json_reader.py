"""Read JSON without loss, and fast where each line is one record.

Spark's JSON reader silently skips what follows the first value of a line or of a multi-line file, empty objects and
fields without a name, and takes a truncated multi-line array for one record. So files are checked before they are
read, in the same pass that finds their fields, and are read in one of the modes of ``Group.mode``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from sluicegate.bronze import landed_paths
from sluicegate.bronze.file_groups import Group, ReadMode
from sluicegate.bronze.landed_paths import is_odd
from sluicegate.bronze.text import json_sql
from sluicegate.bronze.text.json_elements import damage, elements
from sluicegate.bronze.text.text_decoder import UNSURE_OF_BYTES
from sluicegate.console import say
from sluicegate.lake.layout import to_ledger_path
from sluicegate.schema import json_doubts, json_values
from sluicegate.spark.session import use_session
from sluicegate.spark_sql.engine_columns import working_column
from sluicegate.spark_sql.identifiers import literal, quote_name
from sluicegate.spark_sql.type_parts import has_variant, is_text
from sluicegate.spark_sql.types import UNNAMED, merge_duplicate_fields, restore_empty_names

# Columns with a corrupt record's text and with a line's file; each process has other names, which no field can have.
CORRUPT_AS, ABOUT = (working_column(f"{name}_{uuid.uuid4().hex}") for name in ("corrupt_record", "metadata"))

# What is said of a file with lines of several values.
HOW_JOINED = (
    "it has lines with several JSON values, and each such line is one corrupt record: write a newline after each "
    "record (for Kinesis Firehose: AppendDelimiterToRecord, or the newline delimiter), then land it again"
)

# What is said of a multi-line file that is more than one value.
HOW_ONE_VALUE = (
    "it continues after its first JSON value, but with multiLine a file is a single value: remove the option if "
    "each line is a record; if no newlines separate the records, as from Kinesis Firehose, have them written"
)


@dataclass(frozen=True)
class JsonFiles:
    """Checker of JSON files that reads those of which Spark's own reader would lose something.

    Attributes:
        session: the Spark session.
        table: the table's name, for messages.
        options: the reader's options, as the definition has them.
        damaged: files that are not read in full, with the reason; filled by ``documents``.
        sure: whether the files are certainly valid UTF-8.
        doubts: signs of values that Spark's reader may not read as the types that it infers.
    """

    session: SparkSession
    table: str
    options: Mapping[str, str]
    damaged: dict[str, str]
    sure: bool = True
    doubts: json_doubts.Doubts = field(default_factory=json_doubts.Doubts)

    def lines(self, paths: Sequence[str]) -> Iterator[Group]:
        """Yield groups of files with one record a line, with fields and read mode; nearly always in one job."""
        texts = self._texts(paths, whole=False)
        # Whether a line is flat is a column: written into both conditions, it would be computed in both.
        flat = texts.selectExpr("value", f"{json_sql.FLAT} AS flat")
        many = f"NOT flat AND {json_sql.FILLED} AND ({json_sql.ARRAY} OR {self._dropped_rest_condition})"
        with_signs = self.doubts.add_sign_fields(f"if(flat, value, {json_sql.NOT_EMPTY})")
        shown = f"if({many}, '{{\"{json_sql.ODD}\":0}}', {with_signs})"
        inferred = self._fields(flat.selectExpr(f"{shown} AS value"))
        names = {field.name for field in inferred}
        if json_sql.ODD not in names and UNNAMED not in names:
            yield Group(json_doubts.record_doubts(inferred, self.doubts.find_doubts(inferred, names)), list(paths))
            return
        # Of all together: a column's type is that of all its values in the ledger batch, however its files are grouped.
        shown_values = texts.where(self._single_value_condition).selectExpr(f"{json_sql.SHOWN} AS value")
        fields = json_doubts.record_doubts(self._fields(shown_values), json_doubts.ALL)
        special = texts.where(f"({self._not_flat_condition}) OR {json_sql.UNNAMED_IN}")
        joined = f"max(value RLIKE '{json_sql.JOINED}' AND NOT {self._single_value_condition}) AS joined"
        irregular = special.select("value", "_metadata.file_path").groupBy("file_path").agg(F.expr(joined)).collect()
        odd = {to_ledger_path(row["file_path"]) for row in irregular}
        for row in irregular:
            if row["joined"]:
                say(f"  bronze {self.table:<28} {to_ledger_path(row['file_path'])}: {HOW_JOINED}")
        plain = [path for path in paths if path not in odd]
        if plain:
            yield Group(fields, plain)
        yield Group(fields, [path for path in paths if path in odd], ReadMode.LINES)

    def has_flat_lines(self, paths: Sequence[str]) -> bool:
        """Return whether each line is at most one record, so that Spark's reader drops none."""
        return self._texts(paths, whole=False).where(self._not_flat_condition).isEmpty()

    def documents(self, paths: Sequence[str]) -> Iterator[Group]:
        """Yield groups of files of one value: whole ones, those with names that Spark cannot read, damaged arrays.

        Text that is not JSON is corrupt. Files with more after their first value are in none of the groups: usually
        each of their lines is a record, and Spark would read the first and silently skip the others.
        """
        kinds, doubts = self._file_kinds(paths)
        by_kind: dict[str, list[str]] = {}
        for path in paths:
            by_kind.setdefault(kinds.get(path, "plain"), []).append(path)
        self.damaged.update(dict.fromkeys(by_kind.get("goes on", ()), HOW_ONE_VALUE))
        parts = self._damaged_arrays(by_kind.get("array", []))
        self.damaged.update(parts)
        yield from self._whole_files(by_kind.get("plain", []), by_kind.get("special", []), paths, doubts)
        if texts := by_kind.get("text"):
            fields = self._fields(self._texts(texts, whole=True).selectExpr(f"{json_sql.SHOWN} AS value"))
            yield Group(json_doubts.record_doubts(fields, json_doubts.ALL), texts, ReadMode.LINES, whole=True)
        if parts:
            fields = self._fields(self._elements(list(parts)).where("sound"))
            yield Group(json_doubts.record_doubts(fields, json_doubts.ALL), list(parts), ReadMode.ELEMENTS)
        if corrupt := [path for path in paths if kinds.get(path) in ("array", "no JSON") and path not in parts]:
            yield Group([], corrupt, ReadMode.LINES, whole=True)

    def _whole_files(
        self, plain: Sequence[str], special: Sequence[str], paths: Sequence[str], doubts: Set[str]
    ) -> Iterator[Group]:
        """Yield the files that Spark's own reader reads, in order, as one group with their common fields."""
        # Spark would take some file names for patterns a second time, and find nothing.
        odd = {*special, *filter(is_odd, plain)}
        members = {*plain, *special}
        whole = [path for path in paths if path in members]
        if whole:
            fields = self._fields_of_files(whole, odd)
            yield Group(json_doubts.record_doubts(fields, self.doubts.find_doubts(fields, doubts)), whole)

    def _file_kinds(self, paths: Sequence[str]) -> tuple[dict[str, str], set[str]]:
        """Return the kind of each multi-line file that is not one plain value, and doubts about values. One job."""
        first = "get_json_object(value, '$') IS NOT NULL"
        not_one = f"CASE WHEN {first} THEN 'goes on' WHEN {json_sql.ARRAY} THEN 'array' ELSE 'no JSON' END"
        # Of UTF-16 that nobody has named, Spark's reader would take the digits of numbers from other places.
        texted = f"{json_sql.UNNAMED_IN} OR nuls"
        kind = (
            f"CASE WHEN NOT {self._single_value_condition} THEN {not_one} WHEN {texted} THEN 'text' "
            f"WHEN {json_sql.SPECIAL} THEN 'special' END"
        )
        texts = self._texts(paths, whole=True).where(json_sql.FILLED)
        signs = {name: f"({sign})" for name, sign in self.doubts.signs.items()}
        conditions = [f"{sign} AS {name}" for name, sign in signs.items()]
        each = texts.selectExpr("_metadata.file_path AS path", f"{kind} AS kind", *conditions)
        files = each.where(" OR ".join(["kind IS NOT NULL", *signs])).collect()
        kinds = {to_ledger_path(row["path"]): row["kind"] for row in files if row["kind"] is not None}
        return kinds, {name for name in signs if any(row[name] for row in files)}

    def _damaged_arrays(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the damaged arrays that begin with complete elements, with their damage."""
        if not paths:
            return {}
        texts = self._texts(paths, whole=True)
        damage_of = _executor_function(damage, "string")
        damages = texts.select(texts["_metadata.file_path"].alias("path"), damage_of("value").alias("why"))
        return {to_ledger_path(row["path"]): row["why"] for row in damages.where("why IS NOT NULL").collect()}

    def texts(self, group: Group) -> DataFrame:
        """Return the texts of a group's records: ``value``, ``sound`` (one JSON value) and the file."""
        if group.mode == ReadMode.ELEMENTS:
            return self._elements(group.paths)
        texts = self._texts(group.paths, whole=group.whole)
        return texts.where(json_sql.FILLED).selectExpr(
            "value", f"{self._single_value_condition} AS sound", f"_metadata AS {ABOUT}"
        )

    def parse(self, group: Group, schema: StructType) -> DataFrame:
        """Parse the texts of a group by a schema that ends with the field of the corrupt record.

        Fields that are text, VARIANTs, and all others are parsed apart: the numbers of the first are tagged, and the
        second have the names of their fields as they landed.
        """
        corrupt = schema[CORRUPT_AS]
        part_of = {field.name: _text_column(field) for field in schema if field.name != CORRUPT_AS}
        parts = [part for part in ("texts", "variants", "typed") if part in part_of.values()]
        # from_json would make doubles of the numbers before it makes texts of them.
        named = self.texts(group).withColumn("typed", F.expr(json_sql.NAMED))
        tagged = named.withColumn("texts", json_values.tag_numbers(F.col("typed")))
        texts = tagged.withColumn("variants", F.col("value"))
        arrays = [
            self._records(part, [*(field for field in schema if part_of.get(field.name) == part), corrupt]).alias(part)
            for part in parts
        ]
        records = texts.select(F.when(F.col("sound"), F.arrays_zip(*arrays)).alias("all"), "value", ABOUT)
        records = records.where("all IS NULL OR size(all) > 0")
        each = records.select(F.explode_outer("all").alias("j"), "value", ABOUT)
        fields = [
            restore_value(F.col(f"j.{part_of[field.name]}").getField(field.name), field)
            for field in schema
            if field.name in part_of
        ]
        damaged = " OR ".join(f"j.{part} IS NULL OR j.{part}.{CORRUPT_AS} IS NOT NULL" for part in parts)
        # The text as it is in the file, not as it was given to the parser.
        return each.select(*fields, F.expr(f"if({damaged}, value, NULL)").alias(CORRUPT_AS), ABOUT)

    def _records(self, text: str, fields: Sequence[StructField]) -> Expression:
        """Return the records of a text as an array, with the given fields; NULL if it cannot be parsed.

        Args:
            text: column with the text.
            fields: the fields, and that of the corrupt record.
        """
        options = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS}
        record = StructType([*fields])
        single = F.array(F.from_json(text, record, options))
        return F.when(F.expr(json_sql.ARRAY), F.from_json(text, ArrayType(record), options)).otherwise(single)

    def variants(self, group: Group, name: str) -> DataFrame:
        """Return each line, or each file, as one VARIANT in the column ``name``."""
        texts = self._texts(group.paths, whole=group.whole).where(json_sql.FILLED)
        sound = f"if({json_sql.FLAT} OR {self._single_value_condition}, try_parse_json(value), NULL)"
        both = texts.selectExpr(f"{sound} AS v", "value", f"_metadata AS {ABOUT}")
        return both.selectExpr(f"v AS {quote_name(name)}", f"if(v IS NULL, value, NULL) AS {CORRUPT_AS}", ABOUT)

    # --- checks -------------------------------------------------------------------------------------------------------

    @property
    def _inference_options(self) -> dict[str, str]:
        return {**self.options, "columnNameOfCorruptRecord": CORRUPT_AS}

    @property
    def _single_value_condition(self) -> str:
        """Condition that a text is one JSON value, or one and a comma, as far as the reader's options let it pass.

        Nearly all pass without options, and then the check with them, which copies all values, is skipped.
        """
        options = self._leniency_options()
        array = f"""concat('[', regexp_replace(value, ',\\\\s*$', ''), '\\n,"{json_sql.END}"]')"""
        parsed = f"from_json({array}, 'array<string>'{options})"
        return f"(({json_sql.ONE}) OR get({parsed}, 1) <=> '{json_sql.END}')"

    @property
    def _dropped_rest_condition(self) -> str:
        """Condition that Spark's reader would take a line for a record, and drop what follows it.

        Spark keeps a line that it considers corrupt, and the other lines of its file keep all digits of their numbers,
        which are lost when texts are read one by one. In UTF-16 it would read empty texts for the numbers.
        """
        options = self._leniency_options({"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS})
        taken = f"from_json(value, 'x STRING, {CORRUPT_AS} STRING'{options}).{CORRUPT_AS} IS NULL"
        return f"(NOT {self._single_value_condition} AND ({json_sql.NOT_UTF_8} OR {taken}))"

    def _leniency_options(self, added: Mapping[str, str] | None = None) -> str:
        """Reader options that decide what passes for JSON, and added ones, as an argument of a SQL function."""
        options = {
            name: value for name, value in self.options.items() if name.lower().startswith(("allow", "maxstring"))
        }
        options |= added or {}
        if not options:
            return ""
        entries = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in options.items())
        return f", map({entries})"

    @property
    def _not_flat_condition(self) -> str:
        return f"NOT ({json_sql.FLAT}) AND {json_sql.FILLED} AND ({json_sql.ARRAY} OR {self._dropped_rest_condition})"

    def _texts(self, paths: Sequence[str], *, whole: bool) -> DataFrame:
        reader = self.session.read.options(**{**self.options, "wholetext": str(whole).lower()})
        texts = landed_paths.load(reader, "text", paths)
        demanded = "value"
        if not self.sure:
            demanded = f"if({json_sql.UNSURE}, raise_error({literal(UNSURE_OF_BYTES)}), value)"
        if not whole:  # concatenated files have a byte order mark inside, which Spark's reader skips
            return texts.selectExpr(
                f"if(startswith({demanded}, '\ufeff'), substr(value, 2), value) AS value", "_metadata"
            )
        # Hadoop removes the byte order mark of UTF-8 alone, and only where it reads lines.
        shown = texts.selectExpr(
            f"TRIM(LEADING '\ufeff' FROM {self._decoded_text}) AS value", "_metadata", f"{json_sql.NULS} AS nuls"
        )
        return shown.selectExpr(f"{demanded} AS value", "_metadata", "nuls")

    @property
    def _decoded_text(self) -> str:
        """SQL of the text of a whole file whose encoding no option names."""
        cases = ""
        for encoding, begins in json_sql.BEGINS.items():
            cases += f" WHEN {json_sql.HEAD} RLIKE '{begins}' THEN decode(CAST(value AS BINARY), '{encoding}')"
        return f"if({json_sql.NULS}, CASE {cases} ELSE value END, value)"

    def _fields_of_files(self, paths: Sequence[str], odd: Set[str]) -> list[StructField]:
        """Return the fields of multi-line files, also those that Spark does not infer."""
        if not odd:
            reader = self.session.read.options(**self._inference_options)
            try:
                return self._restore_fields(landed_paths.load(reader, "json", paths).schema)
            except AnalysisException as error:
                if error.getCondition() != "COLUMN_ALREADY_EXISTS":  # a record has a key twice
                    raise
        return self._fields(self._texts(paths, whole=True).selectExpr(f"{json_sql.SHOWN} AS value"))

    def _fields(self, texts: DataFrame) -> list[StructField]:
        """Return the fields of some texts."""
        named = texts.selectExpr(f"{json_sql.NAMED} AS value")
        with use_session(self.session):  # else fields of two files whose names differ in case would be one
            inferred = self.session.read.options(**self._inference_options).json(named).schema
        return self._restore_fields(inferred)

    @staticmethod
    def _restore_fields(inferred: StructType) -> list[StructField]:
        """Restore fields as they are in the files; a column needs a name, so an unnamed field keeps the one we gave."""
        fields = [
            StructField(field.name, restore_empty_names(field.dataType))
            for field in inferred
            if field.name != CORRUPT_AS
        ]
        # A key that is twice in a record is two fields for Spark, which then reads none of the ledger batch.
        whole = merge_duplicate_fields(StructType(fields))
        if not isinstance(whole, StructType):
            return fields
        return list(whole)

    def _elements(self, paths: Sequence[str]) -> DataFrame:
        split = _executor_function(elements, "array<struct<value: string, sound: boolean>>")
        texts = self._texts(paths, whole=True).select("value", F.col("_metadata").alias(ABOUT))
        each = texts.select(F.explode(split("value")).alias("element"), ABOUT)
        return each.select("element.value", "element.sound", ABOUT).where(f"sound OR {json_sql.FILLED}")


def _text_column(field: StructField) -> str:
    """Return the column with the text of which a field is parsed."""
    if is_text(field.dataType):
        return "texts"
    if has_variant(field.dataType):
        return "variants"
    return "typed"


def _executor_function(function: Callable[[str], Any], kind: str) -> Callable[[str], Expression]:
    """Return a column function that runs on executors without this package or Arrow."""
    from sluicegate.bronze.text import json_elements as here

    def column_function(column: str) -> Expression:
        cloudpickle.register_pickle_by_value(here)  # type: ignore[no-untyped-call]
        try:
            # Spark would take the hints of a function's types for those of a pandas one, and warn.
            return F.udf(lambda text: function(text), kind, useArrow=False)(column)
        finally:
            cloudpickle.unregister_pickle_by_value(here)  # type: ignore[no-untyped-call]

    return column_function


def restore_value(value: Expression, field: StructField) -> Expression:
    """Restore a value as it is in the files, without our markers of numbers and of unnamed fields."""
    if not isinstance(field.dataType, StringType):
        return value.alias(field.name)
    return json_values.remove_tags(F.replace(value, F.lit(UNNAMED), F.lit(""))).alias(field.name)
