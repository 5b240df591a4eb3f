"""Which column each value becomes: hints inside of columns, wider types, one VARIANT, and what is rescued."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sluicegate.errors import SchemaMismatch
from sluicegate.schema import history
from tests.conftest import Workspace
from tests.spark.landing.test_file_status import define, states, verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def rescued(workspace: Workspace, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of all records, and the rescued values without the file's path, in the order of reading."""
    rows = workspace.rows("things", "_chunk", "_pos", *columns, "_rescued_data")
    found = []
    for row in sorted(rows):
        other = json.loads(row[-1]) if row[-1] else None
        found.append((*row[2:-1], {k: v for k, v in other.items() if k != "_file_path"} if other else None))
    return found


def kinds(workspace: Workspace) -> dict[str, str]:
    fields = DeltaTable(workspace.uri("things")).schema().fields
    return {field.name: str(json.loads(field.to_json())["type"]) for field in fields}


def test_a_hint_inside_of_a_column(spark: SparkSession, workspace: Workspace) -> None:
    hints = "who.age INT, lines.element.price DOUBLE, later.at TIMESTAMP"
    define(workspace, f'format: json, schemaHints: "{hints}"')
    first = {"who": {"age": 41, "name": "ü"}, "lines": [{"price": 1.5, "id": 7}, {"price": None}]}
    workspace.land("things/a.json", "\n".join(map(json.dumps, [first, {"who": {"age": "forty"}}])))
    workspace.run(spark, "bronze")
    rows = rescued(workspace, "who", "lines", "later")
    assert rows[0] == ({"age": 41, "name": "ü"}, [{"price": 1.5, "id": "7"}, {"price": None, "id": None}], None, None)
    assert rows[1] == ({"age": None, "name": None}, None, None, {"who": '{"age": "forty"}'})
    workspace.edit("pipeline.yaml", "who.age INT", "who.age STRING")
    workspace.land("things/b.json", "{}")
    with pytest.raises(SchemaMismatch, match="who"):
        workspace.run(spark, "bronze")


def test_a_nested_value_that_does_not_fit_does_not_bring_its_document_along(
    spark: SparkSession, workspace: Workspace
) -> None:
    define(workspace, 'format: json, options: {multiLine: true}, schemaHints: "o STRUCT<n: INT>"')
    workspace.land("things/a.json", [{"id": n, "o": {"n": "x" if n == 3 else n}} for n in range(5)])
    assert workspace.run(spark, "bronze")["things"].corrupt == 0
    rows = rescued(workspace, "id", "o")
    assert [row for row in rows if row[-1]] == [("3", {"n": None}, {"o": '{"n": "x"}'})]
    assert [row[1] for row in rows if not row[-1]] == [{"n": n} for n in (0, 1, 2, 4)]


def test_a_column_gets_the_wider_type_of_its_values(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: parquet, schemaEvolutionMode: addNewColumnsWithTypeWidening")
    folder = workspace.folder / "landing" / "things"
    for name, ints, floats in (("a", pa.int32(), pa.float32()), ("b", pa.int64(), pa.float64())):
        big = 5 if name == "a" else 5_000_000_000
        table = pa.table({"n": pa.array([big], ints), "f": pa.array([0.5], floats), "s": [name]})
        pq.write_table(table, folder / f"{name}.parquet")
        workspace.land(f"things/{name}.parquet", (folder / f"{name}.parquet").read_bytes())
        workspace.run(spark, "bronze")
    assert sorted(workspace.rows("things", "n", "f", "s")) == [(5, 0.5, "a"), (5_000_000_000, 0.5, "b")]
    assert (kinds(workspace)["n"], kinds(workspace)["f"]) == ("long", "double")
    found = history.versions(workspace.lake, "things")
    assert [row["changes"] for row in found] == ["the first columns", "n INT is BIGINT now; f FLOAT is DOUBLE now"]
    # Text does not fit a number: it is no wider type.
    pq.write_table(pa.table({"n": ["many"], "new": [True]}), folder / "c.parquet")
    workspace.land("things/c.parquet", (folder / "c.parquet").read_bytes())
    workspace.run(spark, "bronze")
    assert rescued(workspace, "n", "new")[-1] == (None, True, {"n": "many"})
    assert verified(workspace)
    # What was kept is what the log says, when it is lost too.
    kept = history.versions(workspace.lake, "things")
    assert kept[-1]["changes"] == "new BOOLEAN came"
    assert (kept[-1]["columns"]["n"], kept[0]["columns"]["n"]) == ("BIGINT", "INT")
    assert DeltaTable(workspace.lake.schemas("things")).count() == 3
    shutil.rmtree(workspace.lake.schemas("things"))
    assert history.versions(workspace.lake, "things") == kept


@pytest.mark.parametrize(
    ("form", "name", "text", "values", "corrupt"),
    [
        ("json", "a.json", '{"a": 1, "b": {"c": [2.5]}}\n{"x": null}{"y": 2}\n{"half": ', ['{"a":1,"b":{"c":[2.5]}}'],
         ['{"half": ', '{"x": null}{"y": 2}']),
        ("csv, options: {header: true}", "a.csv", 'a,b\n1,"x y"\n2,\n', ['{"a":1,"b":"x y"}', '{"a":2,"b":null}'], []),
        ("xml, options: {rowTag: r}", "a.xml", '<all><r n="1"><b>2</b><b>3</b></r></all>', ['{"_n":1,"b":[2,3]}'], []),
    ],
)  # fmt: skip
def test_each_record_as_one_variant(
    spark: SparkSession, workspace: Workspace, form: str, name: str, text: str, values: list[str], corrupt: list[str]
) -> None:
    define(workspace, f"format: {form}, singleVariantColumn: record")
    workspace.land(f"things/{name}", text)
    assert workspace.run(spark, "bronze")["things"].corrupt == len(corrupt)
    found = spark.read.format("delta").load(workspace.uri("things"))
    assert sorted(r[0] for r in found.selectExpr("CAST(record AS STRING)").collect() if r[0]) == sorted(values)
    assert sorted(r[0] for r in found.select("_corrupt_record").collect() if r[0]) == sorted(corrupt)
    assert verified(workspace)


@pytest.mark.parametrize("form", ["json", "json, options: {multiLine: true}"])
def test_empty_objects_and_fields_without_a_name(spark: SparkSession, workspace: Workspace, form: str) -> None:
    define(workspace, f"format: {form}")
    records = [{"a": {}, "b": '"": x'}, {"a": "{ }", "": 1, "b": ""}, {"o": {"": "in", "n": 1}}]
    lines = "multiLine" not in form
    workspace.land("things/a.json", "\n".join(map(json.dumps, records)) if lines else records)
    workspace.run(spark, "bronze")
    rows = rescued(workspace, "a", "b", "o")
    assert rows[0] == ("{}", '"": x', None, None)
    assert rows[1] == ("{ }", "", None, {"": "1"})
    assert json.loads(rows[2][2]) == {"": "in", "n": 1}


@pytest.mark.parametrize("form", ["json", "json, options: {multiLine: true}"])
def test_names_that_end_in_a_quote_and_VARIANTs_with_fields_without_a_name(
    spark: SparkSession, workspace: Workspace, form: str
) -> None:
    """``""`` before a colon may be the end of a name; and no text that lands is taken for a name of ours."""
    define(workspace, f'format: {form}, schemaHints: "v VARIANT, n INT"')
    records = [{'q"': "x", "": 1, "t": "_sluicegate_unnamed"}, {"v": {"": [2, {"": 3}]}, "n": 4}, {'o"': {'p"': ""}}]
    lines = "multiLine" not in form
    workspace.land("things/a.json", "\n".join(map(json.dumps, records)) if lines else records)
    workspace.run(spark, "bronze")
    rows = rescued(workspace, 'q"', "t", 'o"', "n")
    assert rows[0] == ("x", "_sluicegate_unnamed", None, None, {"": "1"})
    assert rows[1] == (None, None, None, 4, None)
    assert rows[2][2] == {'p"': ""}
    found = spark.read.format("delta").load(workspace.uri("things")).selectExpr("CAST(v AS STRING) AS v")
    assert [json.loads(row["v"]) for row in found.collect() if row["v"]] == [{"": [2, {"": 3}]}]


def test_what_a_cast_would_cut_off_is_rescued(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, 'format: csv, options: {header: true}, schemaHints: "price DECIMAL(10,2), day DATE"')
    workspace.land("things/a.csv", "price,day\n1.50,2024-05-01\n1.505,2024-05-01 12:30:00\n2,2024-05-01 00:00:00\n")
    workspace.run(spark, "bronze")
    found = [(str(price), str(day), lost) for price, day, lost in rescued(workspace, "price", "day")]
    assert found[0] == ("1.50", "2024-05-01", None)
    assert found[1][2] == {"price": "1.505", "day": "2024-05-01 12:30:00"}
    assert found[2] == ("2.00", "2024-05-01", None)


def test_packed_files_fail_alone(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, schemaHints: id BIGINT")
    workspace.land("things/a.json", '{"id": 1}')
    workspace.land("things/b.json.7z", b"7z\xbc\xaf...")
    workspace.land("things/c.json.zip", b"PK\x03\x04...")
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, len(report.failed)) == (1, 2)
    reasons = {path.rpartition(".")[2]: reason for path, reason in report.failed.items()}
    assert "compression" in reasons["7z"]
    assert "zip" in reasons["zip"]


def test_of_a_truncated_array_the_complete_elements_are_kept(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, options: {multiLine: true}, schemaHints: id BIGINT")
    whole = json.dumps([{"id": n, "note": f"}}{{ [{n}"} for n in range(6)], indent=1)
    half = whole[: whole.index('"id": 4') + 3]
    workspace.land("things/whole.json", [{"id": 10}], age=90)
    workspace.land("things/half.json", half, age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.corrupt, len(report.failed)) == (6, 1, 1)
    assert "first 4 elements" in next(iter(report.failed.values()))
    rows = workspace.rows("things", "id", "note", "_corrupt_record")
    assert sorted((id, note) for id, note, bad in rows if bad is None and id < 10) == [
        (n, f"}}{{ [{n}") for n in range(4)
    ]
    assert [bad for _, _, bad in rows if bad] == [half[half.index("{", half.index("[3")) :]]
    assert dict(states(workspace)) == {"half.json": "failed", "whole.json": "ingested"}
    assert verified(workspace)
    assert workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]
    workspace.land("things/half.json", whole, age=40)  # the upload is complete now
    assert workspace.run(spark, "bronze")["things"].failed == {}
    assert sorted(id for (id,) in workspace.rows("things", "id")) == [0, 1, 2, 3, 4, 5, 10]
    assert verified(workspace)


def test_without_rescued_data(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, 'format: json, schema: "id BIGINT, at TIMESTAMP", rescuedDataColumn: none')
    good = '{"id": 1, "at": "2024-05-01T12:00:00Z", "other": 1}'
    bad = '{"id": "x", "at": "2024-05-01T12:00:00Z"}'
    workspace.land("things/a.json", f"{good}\n{bad}\n")
    workspace.land("things/b.json", '{"id": 2}{"id": 3}\n[{"id": 4}, {"id": 5}]\n')
    workspace.run(spark, "bronze")
    rows = workspace.rows("things", "id", "_rescued_data", "_corrupt_record")
    assert sorted(id for id, _, text in rows if text is None) == [
        1,
        4,
        5,
    ]  # as Spark: a field that is no column is left out
    assert sorted(text for _, _, text in rows if text) == [
        '{"id": "x", "at": "2024-05-01T12:00:00Z"}',
        '{"id": 2}{"id": 3}',
    ]
    assert {lost for _, lost, _ in rows} == {None}
