"""Files of which only a part is records, or that are packed: each line and each record is accounted for."""

from __future__ import annotations

import io
import json
import lzma
import zipfile
from typing import TYPE_CHECKING

import pytest

from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """name: heart_rate
bronze:
  reports: {path: "${landing}/reports", format: csv, options: {header: true, skipRows: 3}, schemaHints: "id INT"}
  quoted:
    path: ${landing}/quoted
    format: csv
    options: {header: true, skipRows: 1, sep: ;, multiLine: true, encoding: windows-1252}
  answers: {path: "${landing}/answers", format: json, options: {multiLine: true}, records: response.items}
  packed: {path: "${landing}/packed", format: json}
"""


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def test_every_record_and_no_other_line_is_read(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    workspace.land("reports/1.csv", "Report,2024\n\nby Tool\nid,amount,note\n1,2.5,a\n2,x,\n")
    workspace.land("reports/2.csv", "Report,,\r\n,,\r\nby Tool,,\r\nid,amount,note\r\n3,4,b\r\n")
    workspace.land("reports/titles.csv", "Station,Berlin,X\n\nby Tool\nid,amount,note\n4,1,d\n")
    workspace.land("reports/no_record.csv", "id,amount,note\n8,1,c\n9,1,c\n")
    workspace.land("reports/header_above.csv", "id,amount,note\n8,1,c\n9,1,c\nid,amount,note\n")
    workspace.land("reports/short.csv", "id,amount\n")
    workspace.land("quoted/1.csv", 'sep=;\nid;text\n1;"€\nfurther"\n2;b\n'.encode("cp1252"))
    items = [{"id": n, "inner": {"items": [n, "]}"]}, "exact": 0.1 + n} for n in range(3)]
    around = {"items": [1], "response": {"count": 3, "text": '"items": [', "items": items, "more": [2]}, "z": {}}
    workspace.land("answers/1.json", json.dumps(around, indent=1))
    workspace.land("answers/2.json", '{"response": {"items": {"id": 7}}}')
    workspace.land("answers/other.json", '{"response": {"rows": [{"id": 8}]}}')
    workspace.land("answers/cut.json", '{"response": {"items": [{"id": 5}, {"id": 6}, {"i')
    workspace.land("packed/1.json.zip", zipped(**{"a/1.json": '{"id": 1}\n{"id": 2}\n', "__MACOSX/a/._1.json": "x"}))
    workspace.land("packed/2.json.xz", lzma.compress(b'{"id": 3}\n'))
    workspace.land("packed/3.json", '{"id": 4}\n')
    workspace.land("packed/several.zip", zipped(a='{"id": 5}', b='{"id": 6}'))
    workspace.land("packed/behind.xz", lzma.compress(b'{"id": 8}\n') + b"x" + lzma.compress(b'{"id": 9}\n'))
    workspace.land("packed/broken.xz", lzma.compress(b'{"id": 7}\n')[:-9])

    reports = workspace.run(spark, "bronze")

    failed = {name: {path.rpartition("/")[2] for path in report.failed} for name, report in reports.items()}
    assert failed == {
        "reports": {"header_above.csv", "short.csv", "no_record.csv"},
        "quoted": set(), "answers": {"other.json", "cut.json"},
        "packed": {"several.zip", "broken.xz", "behind.xz"},
    }  # fmt: skip
    assert "line 1" in next(why for path, why in reports["reports"].failed.items() if path.endswith("above.csv"))
    expected = [(1, "2.5", "a"), (2, "x", None), (3, "4", "b"), (4, "1", "d")]
    assert sorted(workspace.rows("reports", "id", "amount", "note")) == expected
    assert sorted(workspace.rows("quoted", "id", "text")) == [("1", "€\nfurther"), ("2", "b")]
    ids = sorted(workspace.rows("answers", "id", "_corrupt_record"), key=str)
    assert [number for number, _ in ids[:-1]] == ["0", "1", "2", "5", "6", "7"]
    assert ids[-1] == (None, '{"i')
    assert sorted(workspace.rows("packed", "id")) == [("1",), ("2",), ("3",), ("4",)]
    files = {source.rpartition("/")[2] for (source,) in workspace.rows("packed", "source_file")}
    assert files == {"1.json.zip", "2.json.xz", "3.json"}
    assert status.verify(workspace.definition, workspace.settings) == []
    assert not list(workspace.folder.glob("lake/*/_state/*_decoded"))
