"""What the engine reads of healthy files is what the second reader reads, however odd the files are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.witness import landed_files
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """name: heart_rate
bronze:
  tabs: {path: "${landing}/tabs", format: csv, options: {header: true, sep: "\\t"}, inferColumnTypes: true}
  lines: {path: "${landing}/lines", format: json, schemaHints: "at TIMESTAMP, d DATE, p DECIMAL(10,2), l TIMESTAMP_NTZ"}
  several: {path: "${landing}/several", format: json, options: {multiLine: true}}
  typed: {path: "${landing}/typed", format: parquet}
  latin: {path: "${landing}/latin", format: csv, options: {header: true, encoding: windows-1252, nullValue: NA}}
  parts: {path: "${landing}/parts", format: json, partitionColumns: [day]}
  named: {path: "${landing}/named", format: csv, options: {header: true}, columnNames: normalized}
  exact: {path: "${landing}/exact", format: json, readerCaseSensitive: false, inferColumnTypes: true}
  cases: {path: "${landing}/cases", format: json}
  numbers: {path: "${landing}/numbers", format: json, schemaHints: "h DOUBLE, n STRUCT<d: DOUBLE, s: STRING>"}
  bytes: {path: "${landing}/bytes", format: csv, options: {header: true}}
  wild: {path: "${landing}/wild", format: csv, options: {header: true, multiLine: true, comment: "#"}}
"""


def test_healthy_files_are_not_called_wrong(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    workspace.land("tabs/a.tsv", "\n\t\t\nid\tn\tn\n1\t2\t3\n\t\t\n4\t\tx\n5\n6\t7\t8\t9\n", age=90)
    workspace.land("tabs/b.tsv", "ID\tid\tm\n1\t2\t3\nx\ty\tz\n", age=80)
    workspace.land(
        "lines/a.json",
        "\n".join(
            [
                '{"at": "2024-05-01T12:00:00.123456Z", "d": "2024-02-30", "p": 1.005, "l": "2024-05-01T12:00+02:00"}',
                '{"at": "2024-05-01 12:00 Asia/Tokyo", "d": "2024-02-29T00:00", "p": "1.5", "l": "2024-05-01 12:00"}',
                '{"at": "12:00", "d": "2024-05-01T10:00:00", "p": 1e2, "a": 1, "A": 2, "a": 3}',
                '{"a": {"x": [1, {"y": null}]}, "n": null, "e": {}, "l": []}',
                '[{"a": 1}, {"a": 2}]',
                "null",
                "[]",
                '{"a": NaN}',
                "{'a': 1}",
                '{"a": 1} {"a": 2}',
                '{"a": "\\ud800"}',
                '{"a": 12345678901234567890.123456789}',
                '{"at": 1714557600, "d": 19000}',
                '{"a": 1,}',
                '{"a": "x\ty"}',
                "17",
                '"text"',
            ]
        ),
        age=90,
    )
    workspace.land("several/a.json", '[{"x": 1, "y": {"Z": 1.50}}, {"X": 2, "y": {"z": "a"}}, {"x": [1]}]', age=90)
    workspace.land("several/b.json", '{"x": 1e400, "y": null}', age=80)
    folder = workspace.folder / "landing/typed"
    folder.mkdir(parents=True)
    first = {"i": pa.array([1, None], pa.int32()), "f": pa.array([0.1, -0.0], pa.float32()), "s": ["a", None]}
    drift = {
        "i": pa.array([0.1, 2.0], pa.float32()),
        "F": pa.array([1, 2], pa.int64()),
        "s": pa.array([0.1, 7], pa.float32()),
    }
    for name, columns, age in (("a", first, 90), ("b", drift, 80)):
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
        workspace.land(f"typed/{name}.parquet", (folder / f"{name}.parquet").read_bytes(), age=age)
    workspace.land("latin/a.csv", 'näme,x\n"é, €",NA\n,"NA"\n"",ü\n'.encode("cp1252"), age=90)
    workspace.land("parts/day=2024-05-01/a.json", '{"v": 1}\n{"v": 2, "day": "other"}\n', age=90)
    workspace.land("parts/day=a%20b/a.json", '{"v": 1, "Day": "a b"}\n', age=80)
    workspace.land("named/a.csv", "First Name,first_name,a b,x\n1,2,3,4\n", age=90)
    workspace.land("named/b.csv", "first name,X,A B\n1,2,3\n", age=80)
    workspace.land("exact/a.json", '{"Id": 1, "v": {"A": 1}}\n{"id": 2, "V": {"a": 2}}\n{"ID": "x", "id": 3}\n', age=90)
    workspace.land("wild/a.csv", '# made\nid,t\n1,"a\r\nb, ""c"""\n# no\n2,\n"3","#x"\n\n4,e\n', age=90)
    # Two files of one batch, of which each has a name in another case.
    workspace.land("cases/a.json", '{"v": 1, "day": "x"}\n', age=90)
    workspace.land("cases/b.json", '{"v": 1, "Day": "other", "in": {"a": 1}}\n', age=90)
    numbers = ['{"v": NaN, "h": NaN, "n": {"d": -Infinity, "s": "NaN"}}', '{"v": -Infinity}', '{"v": 1} {"v": 2}']
    workspace.land("numbers/a.json", "\n".join(numbers), age=90)
    for place in range(3):
        lines = [b"1,Zoe", b"2,Ann", b"3,Bo"]
        lines[place] = b"4,J\xfcrgen"
        workspace.land(f"bytes/{place}.csv", b"\n".join([b"id,name", *lines]), age=90)
    workspace.run(spark, "bronze")
    found = list(landed_files.findings(workspace.definition, workspace.settings))
    assert [str(one) for one in found if one.kind == "wrong"] == []
    assert {one.table for one in found if one.kind == "proved"} == {*workspace.definition.bronze}
    cases = sorted(workspace.rows("cases", "Day", "_rescued_data"), key=lambda row: row[0] is None)
    rescued = json.loads(cases[1][1])
    assert (cases[0][0], rescued["day"]) == ("other", "x")
    numbers_read = [(v, str(h), str(n)) for v, h, n in workspace.rows("numbers", "v", "h", "n.d")[:2]]
    assert numbers_read == [("NaN", "nan", "-inf"), ("-Infinity", "None", "None")]
