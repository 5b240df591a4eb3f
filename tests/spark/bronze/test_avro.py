"""Avro files: each is read with the schema that it was written with, and a broken one fails alone."""

from __future__ import annotations

import json
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.bronze import avro_header
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CODECS = ("uncompressed", "deflate", "snappy", "bzip2", "xz", "zstandard")


def define(workspace: Workspace, extra: str = "maxFilesPerTrigger: 1000") -> None:
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', format: avro, {extra}}}\n")
    (workspace.folder / "landing" / "things").mkdir(parents=True)


def land(spark: SparkSession, workspace: Workspace, name: str, query: str, age: float, **options: str) -> Path:
    """Writes the rows of a query as one Avro file that landed ``age`` seconds ago."""
    folder = workspace.folder / "made"
    writer = spark.sql(query).coalesce(1).write.format(avro_header.PROVIDER).mode("overwrite").options(**options)
    writer.save(str(folder))
    path = workspace.folder / "landing" / "things" / name
    next(folder.glob("*.avro")).rename(path)
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def read(workspace: Workspace, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(workspace.rows("things", *columns), key=repr)


@pytest.mark.more
def test_every_codec_and_types_of_their_own(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    for number, codec in enumerate(CODECS):
        price = f"CAST({number}.25 AS DECIMAL(9, 2)) AS price"
        query = f"SELECT {number}L AS id, {price}, '{codec}' AS name, array(1, {number}) AS list"
        land(spark, workspace, f"{codec}.avro", query, 90, compression=codec)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.corrupt, report.failed) == (6, 0, {})
    rows = workspace.rows("things", "id", "price", "name", "list")
    assert sorted(rows) == [(n, Decimal(f"{n}.25"), codec, [1, n]) for n, codec in enumerate(CODECS)]
    assert status.verify(workspace.definition, workspace.settings) == []


@pytest.mark.release
def test_fields_come_and_change_their_types(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    land(spark, workspace, "a.avro", "SELECT 1L AS id, struct(1 AS a) AS o, NULL AS nothing", 90)
    land(spark, workspace, "b.avro", "SELECT 2.5D AS id, struct(2 AS a, 'y' AS b) AS o, 'red' AS colour", 80)
    workspace.run(spark, "bronze")
    land(spark, workspace, "c.avro", "SELECT 3L AS id, 'later' AS nothing, 4D AS colour", 70)
    workspace.run(spark, "bronze")
    assert read(workspace, "id", "o", "colour", "nothing") == [
        (1, {"a": 1, "b": None}, None, None), (2, {"a": 2, "b": "y"}, "red", None), (3, None, "4.0", "later"),
    ]  # fmt: skip
    [rescued] = [json.loads(text) for (text,) in workspace.rows("things", "_rescued_data") if text]
    assert rescued["id"] == 2.5  # what the whole number in the column does not have


@pytest.mark.release
def test_a_broken_file_fails_alone(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    query = "SELECT id, md5(CAST(id AS STRING)) AS text FROM range(20000)"
    whole = land(spark, workspace, "half.avro", query, 90).read_bytes()
    for name, data in {
        "half.avro": whole[: len(whole) // 2], "end.avro": whole[:-1], "head.avro": whole[:60], "empty.avro": b"",
        "text.avro": b"not avro at all", "middle.avro": whole[:90_000] + b"zzzz" + whole[90_004:],
    }.items():  # fmt: skip
        workspace.land(f"things/{name}", data, age=80)
    workspace.land("things/whole", whole, age=70)  # whatever its suffix
    report = workspace.run(spark, "bronze")["things"]
    names = sorted(Path(path).name for path in report.failed)
    assert names == ["empty.avro", "end.avro", "half.avro", "head.avro", "middle.avro", "text.avro"]
    assert sorted(workspace.rows("things", "id")) == [(n,) for n in range(20000)]
    workspace.land("things/half.avro", whole, age=50)
    assert workspace.run(spark, "bronze")["things"].read == 20000
    assert status.verify(workspace.definition, workspace.settings) == []


def test_unions(spark: SparkSession, workspace: Workspace) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    fields = [{"name": "u", "type": ["int", "string"]}, {"name": "e", "type": enum}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    define(workspace, "options: {enableStableIdentifiersForUnionType: true}")
    land(
        spark,
        workspace,
        "a.avro",
        "SELECT struct(CAST(NULL AS INT) member0, 'x' member1) u, 'A' e",
        90,
        avroSchema=schema,
    )
    workspace.run(spark, "bronze")
    assert read(workspace, "u", "e") == [({"member_int": None, "member_string": "x"}, "A")]
