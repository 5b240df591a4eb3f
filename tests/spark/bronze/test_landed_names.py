"""Files are read whatever their names are, and a file without a record is told from one of which nothing was read."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from sluicegate import api
from sluicegate.landing import discovery, file_status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = ("10:30", "a:b/c:d", "file:x", "C:\\x", "s3://x", "{a}:[b]*?,", "%3A: é")
TABLES = {
    "csv": ("csv", "options: {header: true}"), "several": ("csv", "options: {header: true, multiLine: true}"),
    "bare": ("csv", "inferColumnTypes: true, options: {multiLine: true}"), "json": ("json", ""),
    "whole": ("json", "options: {multiLine: true}"), "text": ("text", ""), "xml": ("xml", "options: {rowTag: row}"),
    "parquet": ("parquet", ""), "orc": ("orc", ""), "latin": ("csv", "options: {header: true, encoding: windows-1252}"),
}  # fmt: skip


def define(workspace: Workspace, tables: dict[str, tuple[str, str]]) -> None:
    lines = [f'  {n}: {{path: "${{landing}}/{n}", format: {form}, {more}}}\n' for n, (form, more) in tables.items()]
    workspace.define("name: heart_rate\nbronze:\n" + "".join(lines))
    for name in tables:
        (workspace.folder / "landing" / name).mkdir(parents=True)


def content(name: str, value: str) -> str:
    match name:
        case "csv" | "several" | "latin" | "inferred":
            return f"v\n{value}\n"
        case "json" | "whole":
            return json.dumps({"v": value})
        case "xml":
            return f"<r><row><v>{value}</v></row></r>"
        case _:
            return f"{value}\n"


def land(workspace: Workspace, name: str, file: str, value: str) -> None:
    path = workspace.folder / "landing" / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if name in ("parquet", "orc"):
        write = parquet.write_table if name == "parquet" else orc.write_table
        write(pa.table({"v": [value]}), path)
    workspace.land(f"{name}/{file}", path.read_bytes() if name in ("parquet", "orc") else content(name, value))


def test_names_with_colons_and_patterns_are_read_once(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, TABLES)
    for name in TABLES:
        for number, file in enumerate(NAMES):
            land(workspace, name, file, f"{number}x")
    workspace.run(spark, "bronze")
    for name in TABLES:
        column = {"bare": "_c0", "text": "value"}.get(name, "v")
        assert sorted(workspace.rows(name, column)) == [(f"{n}x",) for n in range(len(NAMES))], name
        statuses = file_status.statuses(workspace.lake, name).to_pylist()
        assert [(row["state"], row["rows"]) for row in statuses] == [("ingested", 1)] * len(NAMES), name
    again = workspace.run(spark, "bronze")
    assert {name: report.read for name, report in again.items()} == dict.fromkeys(TABLES, 0)


def test_files_without_records(spark: SparkSession, workspace: Workspace) -> None:
    tables = {name: TABLES[name] for name in ("csv", "json", "whole", "text", "xml", "parquet")}
    define(workspace, tables)
    empty: dict[str, dict[str, str | bytes]] = {
        "csv": {"header.csv": "v\n", "nothing.csv": "", "blank.csv": "\n \n\n", "packed.csv.gz": gzip.compress(b"")},
        "json": {"blank.json": " \n\n", "nothing.json": ""},
        "whole": {"array.json": "[]", "blank.json": "  \n"},
        "text": {"nothing.txt": ""},
        "xml": {"root.xml": '<?xml version="1.0"?>\n<r>\n<!-- none --></r>\n'},
        "parquet": {},
    }
    for name, files in empty.items():
        for file, data in files.items():
            workspace.land(f"{name}/{file}", data)
    parquet.write_table(pa.table({"v": pa.array([], pa.string())}), workspace.folder / "landing/parquet/none.parquet")
    workspace.land("parquet/none.parquet", (workspace.folder / "landing/parquet/none.parquet").read_bytes())
    workspace.land("text/nul.txt", b"\0\0\0\n")
    others = {"other.xml": "<r><Row><v>1</v></Row></r>", "spaced.xml": '<r xmlns:p="u"><p:row><v>1</v></p:row></r>'}
    for file, text in others.items():
        workspace.land(f"xml/{file}", text)
    land(workspace, "xml", "good.xml", "1")
    reports = workspace.run(spark, "bronze")
    states = states_of(workspace, tables)
    for name, files in empty.items():
        assert {file: states[name][file] for file in files} == dict.fromkeys(files, ("ingested", 0)), name
        assert reports[name].empty_files == max(len(files), 1), name
    assert states["text"]["nul.txt"] == ("ingested", 1)
    assert states["xml"]["good.xml"] == ("ingested", 1)
    assert {file: states["xml"][file] for file in others} == dict.fromkeys(others, ("failed", 0))
    assert all("rowTag" in why for why in reports["xml"].failed.values())
    assert workspace.rows("xml", "v") == [("1",)]
    workspace.edit("pipeline.yaml", "rowTag: row", "rowTag: Row")
    workspace.run(spark, "bronze")
    assert states_of(workspace, ["xml"])["xml"]["other.xml"] == ("ingested", 1)


def states_of(workspace: Workspace, tables: Any) -> dict[str, dict[str, tuple[str, int]]]:
    return {
        name: {
            row["path"].rpartition("/")[2]: (row["state"], row["rows"])
            for row in api.files(workspace.definition, name).to_pylist()
        }
        for name in tables
    }


def test_files_that_programs_lay_beside_others_are_passed_over_and_told(
    spark: SparkSession, workspace: Workspace
) -> None:
    define(workspace, {"csv": TABLES["csv"]})
    beside = ("Thumbs.db", "~$h.csv", "j.csv.crc", "sub/desktop.ini")
    for file in (*beside, "h.csv", ".DS_Store", "crc.csv"):
        land(workspace, "csv", file, "1")
    report = workspace.run(spark, "bronze")["csv"]
    assert report.read == 2
    refused = {path.rpartition("/landing/csv/")[2]: why for path, why in report.refused.items()}
    assert set(refused) == set(beside)
    found = discovery.discover("csv", workspace.definition.bronze["csv"], workspace.lake)
    assert (found.new.num_rows, len(found.refused)) == (0, len(beside))  # and not once alone


def test_json_that_is_nested_too_deep_costs_its_record(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, {"json": TABLES["json"], "whole": TABLES["whole"]})
    deep = '{"a":' * 990 + "1" + "}" * 990
    workspace.land("json/a.json", f'{deep}\n{{"v":"1"}}\n')
    workspace.land("whole/a.json", '{"a":' * 1100 + "1" + "}" * 1100)
    workspace.land("whole/b.json", '{"v":"1"}')
    workspace.run(spark, "bronze")
    for name in ("json", "whole"):
        rows = sorted(workspace.rows(name, "v", "_corrupt_record"), key=repr)
        assert rows[0] == ("1", None), name
        assert rows[1][0] is None, name
        assert rows[1][1].startswith('{"a":{"a":'), name
