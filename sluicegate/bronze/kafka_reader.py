"""Read Kafka's records with Spark: the value as columns, as a line of a file would be, and the metadata.

Each record gives one row whatever its value, so that rows and offsets can be compared: a value that is not a JSON
object is corrupt text. A record without a value (a tombstone) has no columns and is not corrupt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from sluicegate.bronze.file_groups import Group, ReadMode
from sluicegate.bronze.raw_reader import NO_SUCH_FIELD
from sluicegate.bronze.reader import Reader
from sluicegate.bronze.text.json_reader import ABOUT, CORRUPT_AS, JsonFiles, restore_value
from sluicegate.bronze.text.json_sql import ARRAY, FILLED, FLAT, NAMED, SHOWN, UNSURE
from sluicegate.definition.tables.kafka import COLUMNS
from sluicegate.landing.kafka_ledger import Partition, Range
from sluicegate.schema import json_doubts
from sluicegate.schema.evolution import Column

# Bytes that are no UTF-8 as a text that loses none of them (RFC 2397).
BYTES = "concat('data:;base64,', base64({bytes}))"
TEXT = "if(is_valid_utf8(CAST({bytes} AS STRING)), CAST({bytes} AS STRING), NULL)"
KEY = f"if(key IS NULL, NULL, coalesce({TEXT.format(bytes='key')}, {BYTES.format(bytes='key')}))"

# A number with a point or an exponent, as Spark writes it where it makes a text of it.
NUMBER, FRACTION = r"^-?[0-9.]+(E-?[0-9]+)?$", "[.E]"


class JsonValues(JsonFiles):
    """JSON values of Kafka's records: ``value``, their text, and ``bytes``."""

    @property
    def _object(self) -> str:
        """Condition that a value is one JSON object: an array would be many records, or none."""
        return f"(({FLAT} OR ({FILLED} AND NOT ({ARRAY}) AND {self._single_value_condition})) AND NOT {UNSURE})"

    def fields(self, values: DataFrame) -> list[StructField]:
        """Return the fields that occur anywhere in the values."""
        inferred = self._fields(values.where(self._object).selectExpr(f"{self.doubts.add_sign_fields(SHOWN)} AS value"))
        return json_doubts.record_doubts(
            inferred, self.doubts.find_doubts(inferred, {field.name for field in inferred})
        )

    def rows(self, values: DataFrame, schema: Sequence[StructField]) -> DataFrame:
        """Parse each value into a row, by a schema that ends with the field of the corrupt record."""
        options = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS}
        named = values.withColumn("named", F.expr(NAMED)).withColumn("is_object", F.expr(self._object))
        parsed = F.when(F.col("is_object"), F.from_json("named", StructType([*schema]), options))
        rows = named.withColumn("j", parsed)
        # Nothing of a corrupt record goes into columns.
        sound = F.expr(f"j IS NOT NULL AND j.{CORRUPT_AS} IS NULL")
        data_fields = [data_field for data_field in schema if data_field.name != CORRUPT_AS]
        fields = [F.when(sound, self._exact_value(data_field)).alias(data_field.name) for data_field in data_fields]
        return rows.select(*fields, _corrupt(F.when(~sound, F.col("value"))).alias(CORRUPT_AS), ABOUT)

    def _exact_value(self, own: StructField) -> Expression:
        """Return a field's value; a number as text with its original digits, not those of a double.

        The digits are found by the field's name, which must occur once in the value, and only if they equal the number.
        """
        value = restore_value(F.col("j").getField(own.name), own)
        if not isinstance(own.dataType, StringType) or not own.name.isidentifier():
            return value
        key = f'"{own.name}"'
        once = F.length("named") - F.length(F.replace("named", F.lit(key), F.lit(""))) == len(key)
        digits = F.regexp_extract("named", f"{key}\\s*:\\s*(-?[0-9][0-9.eE+-]*)\\s*[,}}]", 1)
        same = digits.try_cast("double") == value.try_cast("double")
        fraction = value.rlike(NUMBER) & value.rlike(FRACTION)
        return F.when(fraction & once & same, digits).otherwise(value)

    def variant_rows(self, values: DataFrame, name: str) -> DataFrame:
        """Parse each value into one VARIANT in the column ``name``."""
        is_single = f"({FLAT} OR ({FILLED} AND {self._single_value_condition}))"
        sound = f"if({is_single} AND NOT {UNSURE}, try_parse_json(value), NULL)"
        rows = values.selectExpr(f"{sound} AS v", "value", "bytes", ABOUT)
        corrupt = _corrupt(F.expr("if(v IS NULL, value, NULL)"))
        return rows.select(F.col("v").alias(name), corrupt.alias(CORRUPT_AS), ABOUT)


def _corrupt(text: Expression) -> Expression:
    """Return the text of a corrupt record; its bytes if they are not UTF-8."""
    return F.when(F.expr("bytes IS NOT NULL AND value IS NULL"), F.expr(BYTES.format(bytes="bytes"))).otherwise(text)


@dataclass(frozen=True)
class KafkaReader(Reader):
    """Reader of offset ranges for one bronze table, whose paths are those of the ledger.

    Attributes:
        connection: options with which Spark's reader connects.
        begins: number of the first record of each range within its ledger batch, by the range's path.
        parts: part to read of each range, by its path.
    """

    connection: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, Range] = field(default_factory=dict)

    def read(self, paths: Sequence[str]) -> DataFrame:
        """Read some ranges, as ``Reader.read`` reads files."""
        return self._read([path for path in paths if self.parts[path].size])

    def empty_frame(self) -> DataFrame:
        """Return an empty frame with the known columns."""
        kinds = COLUMNS
        if self._has_binary_keys:
            kinds = {**COLUMNS, "_key": "BINARY"}
        return super().empty_frame().withColumns({name: F.lit(None).cast(kind) for name, kind in kinds.items()})

    @property
    def _has_binary_keys(self) -> bool:
        return self._table.kafka is not None and self._table.kafka.key == "binary"

    @cached_property
    def _values(self) -> JsonValues:
        return JsonValues(
            self.session, self.schema.table, self._reader_options, {},
            doubts=json_doubts.Doubts.from_schema(self.schema),
        )  # fmt: skip

    def _groups(self, paths: Sequence[str]) -> Iterator[Group]:
        match self._table.format:
            case _ if self._table.singleVariantColumn:
                yield Group(self._variant_fields, list(paths), ReadMode.VARIANT)
            case "json":
                yield Group(self._values.fields(self._read_values(paths)), list(paths))
            case "text":
                yield Group([StructField("value", StringType())], list(paths))
            case _:
                yield Group([StructField("value", BinaryType())], list(paths))

    def _load_raw(self, group: Group, columns: list[Column]) -> tuple[DataFrame, list[str]]:
        texts, names = self._read_values(group.paths), [column.field for column in columns]
        if group.mode == ReadMode.VARIANT:
            return self._values.variant_rows(texts, names[0]), names
        if self._table.format == "json":
            read = [StructField(column.field, column.read) for column in columns]
            absent_field = []
            if not read:
                absent_field = [StructField(NO_SUCH_FIELD, StringType())]
            return self._values.rows(texts, [*read, *absent_field, StructField(CORRUPT_AS, StringType())]), names
        if self._table.format == "text":
            return texts.select("value", _corrupt(F.lit(None).cast("string")).alias(CORRUPT_AS), ABOUT), names
        return texts.select(F.col("bytes").alias("value"), ABOUT), names

    def _source_columns(self, about: Expression) -> list[Expression]:
        return [about[name].alias(name) for name in (*COLUMNS, "_pos")]

    def _read_values(self, paths: Sequence[str]) -> DataFrame:
        """Return the values as bytes and as text, with the metadata in one column."""
        ranges = {path: Range.from_path(path) for path in paths}
        names = {path: f"{one.partition.topic}/{one.partition.number}" for path, one in ranges.items()}
        where = F.create_map(*[F.lit(part) for path, name in names.items() for part in (name, path)])
        first = F.create_map(
            *[F.lit(part) for path, name in names.items() for part in (name, self.begins[path] - ranges[path].start)]
        )
        partition = F.concat("topic", F.lit("/"), F.col("partition").cast("string"))
        with_it = {
            "file_path": F.element_at(where, partition), "file_modification_time": F.col("timestamp"),
            "_key": F.expr("key" if self._has_binary_keys else KEY), "_headers": F.col("headers"),
            "_topic": F.col("topic"), "_partition": F.col("partition"), "_offset": F.col("offset"),
            "_timestamp": F.col("timestamp"),
            "_pos": (F.col("offset") + F.element_at(first, partition)).cast("bigint"),
        }  # fmt: skip
        about = F.struct(*[value.alias(name) for name, value in with_it.items()])
        records = self._records([self.parts[path] for path in paths])
        stored = records.select(F.col("value").alias("bytes"), about.alias(ABOUT))
        return stored.withColumn("value", F.expr(TEXT.format(bytes="bytes")))

    def _records(self, ranges: Sequence[Range]) -> DataFrame:
        """Read some ranges with Spark's connector, which fails where the first record of a range is gone."""
        starts, ends = ({one.partition: getattr(one, end) for one in ranges} for end in ("start", "end"))
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(starts):
            numbers.setdefault(topic, []).append(number)
        options = {
            **self.connection, "assign": json.dumps(numbers), "startingOffsets": _format_offsets(starts),
            "endingOffsets": _format_offsets(ends), "includeHeaders": "true", "failOnDataLoss": "true",
        }  # fmt: skip
        return self.session.read.format("kafka").options(**options).load()


def _format_offsets(offsets: Mapping[Partition, int]) -> str:
    """Format offsets as JSON for Spark's options."""
    by_topic: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        by_topic.setdefault(partition.topic, {})[str(partition.number)] = offset
    return json.dumps(by_topic)
