"""Values that the page shows of pipelines with personal data, by their lineage, on real tables."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate.dashboard import one_table, personal, quarantined
from sluicegate.dashboard.personal import HIDDEN
from sluicegate.dashboard.source import Source
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, tzinfo=UTC)
BRONZE = "name: heart_rate\nbronze:\n  raw: {path: '${landing}/in', format: json}\n"
PROVENANCE = {"_rescued_data": '{"x": "Ada"}', "_corrupt_record": "Ada", "source_file": "f", "_chunk": 0, "_pos": 0}


def write(made: Workspace, table: str, **row: Any) -> None:
    write_deltalake(made.uri(table), pa.Table.from_pylist([row]), mode="append")


def shows(made: Workspace, table: str) -> dict[str, str]:
    """Shown values of a table's only row by column."""
    view = one_table.table_details(Source(made.settings, None), made.definition, table)
    assert view.sample is not None
    row = dict(zip(view.sample.columns, view.sample.rows[0], strict=True))
    return {name: value for name, value in row.items() if value != HIDDEN}


def record(made: Workspace, table: str, **came: Any) -> dict[str, Any]:
    """Shown fields of a record in the table's quarantine."""
    write(made, f"{table}_quarantine", _failed_expectations=["r"], _quarantined_at=NOW, _record=json.dumps(came))
    view = quarantined.quarantine_details(Source(made.settings, None), made.definition, table)
    assert view.examples is not None
    assert view.hidden
    return {name: value for name, value in json.loads(view.examples[0].record).items() if value != HIDDEN}


@pytest.fixture
def wards(workspace: Workspace) -> Workspace:
    """A silver table whose columns have other names than those of bronze, and gold that renames them once more."""
    workspace.define(
        f"{BRONZE}silver:\n  s:\n"
        "    sql: SELECT name AS full_name, ward AS name, patient.id AS patient, patient.ssn AS ssn, birth AS"
        " birth_date, pulse, sha2(mrn, 256) AS mrn, _rescued_data AS extra, concat(_corrupt_record) AS torn"
        " FROM STREAM(raw)\n"
        "    expectations: {r: {expect_or_quarantine: pulse > 0}}\n"
        "    pii: [full_name, ssn, birth_date]\n"
        "gold:\n"
        "  g: {sql: 'SELECT birth_date AS dob, year(birth_date) AS year, name AS ward, name, pulse, full_name AS who,"
        " CASE WHEN full_name IS NULL THEN 1 ELSE 2 END AS nameless FROM s'}\n"
        "  b: {sql: 'SELECT birth AS born, month(birth) AS month, count(*) AS n FROM raw GROUP BY birth'}\n"
    )
    patient = {"id": "p1", "ssn": "123-45"}
    write(workspace, "raw", name="Ada", ward="W1", patient=patient, birth=date(1990, 1, 2), pulse=70, mrn="m1",
          **PROVENANCE)  # fmt: skip
    write(workspace, "s", full_name="Ada", name="W1", patient="p1", ssn="123-45", birth_date=date(1990, 1, 2), pulse=70,
          mrn="5f1", extra="Ada", torn="Ada")  # fmt: skip
    write(workspace, "g", dob=date(1990, 1, 2), year=1990, ward="W1", name="W1", pulse=70, who="Ada", nameless=2)
    write(workspace, "b", born=date(1990, 1, 2), month=1, n=1)
    return workspace


def test_silver_shows_what_is_not_marked_and_no_whole_records(wards: Workspace) -> None:
    assert shows(wards, "s") == {"name": "W1", "patient": "p1", "pulse": "70", "mrn": "5f1"}


def test_bronze_shows_only_what_silver_has_unchanged_and_unmarked(wards: Workspace) -> None:
    assert shows(wards, "raw") == {"ward": "W1", "pulse": "70", "source_file": "f"}


def test_gold_shows_nothing_that_personal_data_go_into(wards: Workspace) -> None:
    assert shows(wards, "g") == {"name": "W1", "pulse": "70"}
    assert shows(wards, "b") == {"n": "1"}


def test_records_as_they_came_show_no_more_than_bronze(wards: Workspace) -> None:
    came = {"name": "Ada", "ward": "W1", "patient": {"id": "p1", "ssn": "123-45"}, "ssn": "1", "pulse": -1, "mrn": "m1",
            "WARD": "W1", "new": "Ada", "_rescued_data": "Ada"}  # fmt: skip
    assert record(wards, "s", **came) == {"ward": "W1", "pulse": -1, "WARD": "W1"}
    text = json.dumps({"ward": {"of": "Ada"}, "pulse": ["Ada"]})
    assert set(json.loads(personal.masked_record(text, lambda _: True, masks=True) or "").values()) == {HIDDEN}


@pytest.mark.parametrize("text", ["Ada,1", "[1]", '"Ada"'])
def test_what_is_no_record_is_hidden_as_a_whole(text: str) -> None:
    assert personal.masked_record(text, lambda _: True, masks=True) == HIDDEN
    assert personal.masked_record(text, lambda _: True, masks=False) == text


def test_a_value_that_is_marked_in_one_silver_table_is_hidden_in_others(workspace: Workspace) -> None:
    workspace.define(
        f"{BRONZE}silver:\n  s: {{sql: 'SELECT doc, doc.name AS name FROM STREAM(raw)', pii: [name]}}\n"
        "  t: {sql: 'SELECT doc AS all_of_it, doc.ward AS ward FROM STREAM(raw)'}\n"
        "  u: {sql: 'SELECT r.doc.ward AS ward, s.name AS of_s FROM STREAM(raw) AS r JOIN s ON r.doc.ward = s.name'}\n"
    )
    doc = {"name": "Ada", "ward": "W1"}
    write(workspace, "raw", doc=doc, **PROVENANCE)
    write(workspace, "s", doc=doc, name="Ada")
    write(workspace, "t", all_of_it=doc, ward="W1")
    write(workspace, "u", ward="W1", of_s="Ada")
    assert [shows(workspace, name) for name in ("s", "t", "u")] == [{}, {"ward": "W1"}, {"ward": "W1"}]


def test_of_a_python_function_what_it_may_return_is_hidden(workspace: Workspace) -> None:
    text = (
        f"{BRONZE}silver:\n  s: {{python: 'f.py:f', from: raw, pii: [name]}}\n"
        "gold:\n  g: {python: 'f.py:g', reads: [s]}\n"
    )
    workspace.define(text, f__py="def f(batch, tables):\n    return batch\n\n\ndef g(tables):\n    return tables\n")
    write(workspace, "raw", name="Ada", ward="W1", **PROVENANCE)
    write(workspace, "s", name="Ada", ward="W1")
    write(workspace, "g", number=1)
    assert [shows(workspace, name) for name in ("raw", "s", "g")] == [{"source_file": "f"}, {"ward": "W1"}, {}]


def test_a_table_that_cannot_be_read_hides_the_values_of_the_others(wards: Workspace) -> None:
    log = Path(wards.uri("b")) / "_delta_log"
    for file in log.iterdir():
        file.unlink()
    log.rmdir()
    assert shows(wards, "s") == {}


READER = """\
name: reader
bronze:
  copied: {path: "PLACE", format: delta}
  own: {path: "${landing}/in", format: json}
silver:
  c: {sql: "SELECT name AS label, ward FROM STREAM(copied)"}
gold:
  d: {sql: "SELECT label AS one, count(*) AS n FROM c GROUP BY label"}
"""


@pytest.mark.parametrize("place", ["the table", "a link", "its quarantine"])
def test_personal_data_of_another_pipeline_are_hidden(tmp_path: Path, place: str) -> None:
    of = Workspace(tmp_path)
    of.define(f"{BRONZE}silver:\n  reader: {{sql: 'SELECT name, ward FROM STREAM(raw)', pii: [name]}}\n")
    write(of, "raw", name="Ada", ward="W1", **PROVENANCE)
    write(of, "reader", name="Ada", ward="W1")
    (tmp_path / "link").symlink_to(of.uri("reader"))
    uri = {"the table": of.uri("reader"), "a link": str(tmp_path / "link")}
    uri["its quarantine"] = of.uri("reader_quarantine")
    reads = Workspace(tmp_path, "reader")
    reads.define(READER.replace("PLACE", uri[place]))
    write(reads, "copied", name="Ada", ward="W1")
    write(reads, "own", name="a thing")
    write(reads, "c", label="Ada", ward="W1")
    write(reads, "d", one="Ada", n=1)
    known = place != "its quarantine"
    assert shows(reads, "copied") == ({"ward": "W1"} if known else {})
    assert shows(reads, "c") == ({"ward": "W1"} if known else {})
    assert shows(reads, "own") == {"name": "a thing"}
    assert shows(reads, "d") == {"n": "1"}
    of.edit("pipeline.yaml", "pii: [name]", "comment: x")
    assert shows(reads, "copied") == {"name": "Ada", "ward": "W1"}
    of.edit("pipeline.yaml", "silver:", "slver:")
    assert shows(reads, "copied") == {}
