"""What columns are computed from and what uses them, as the page of a table links them, on real tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate.dashboard import column_links, one_table
from sluicegate.dashboard.one_table import TableDetails
from sluicegate.dashboard.source import Source
from sluicegate.monitor import impact
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

SHOP = """\
name: heart_rate
bronze:
  raw: {path: '${landing}/in', format: json}
silver:
  s:
    sql: SELECT id, trim(Name) AS full_name, price * pieces AS total, sha2(mrn, 256) AS mrn FROM STREAM(raw) WHERE ok
    expectations: {r: {expect_or_quarantine: total > 0}}
    keys: [id]
    pii: [full_name]
gold:
  g: {sql: 'SELECT full_name, sum(total) AS total, count(*) AS n FROM s GROUP BY full_name'}
  p: {python: 'f.py:f', reads: [s, g], lineage: {known: [s.total]}}
"""


def write(made: Workspace, table: str, **row: Any) -> None:
    write_deltalake(made.uri(table), pa.Table.from_pylist([row]), mode="append")


@pytest.fixture
def shop(workspace: Workspace) -> Workspace:
    workspace.define(SHOP, f__py="def f(tables):\n    return tables['s']\n")
    write(workspace, "raw", id=1, Name="Ada", price=2, pieces=3, mrn="m", ok=True, _chunk=0, _pos=0)
    write(workspace, "s", id=1, full_name="Ada", total=6, mrn="x", _chunk=0, _pos=0)
    write(workspace, "g", full_name="Ada", total=6, n=1)
    write(workspace, "p", known=1, other=2)
    return workspace


def seen(made: Workspace, table: str, *readable: str, source: Source | None = None) -> TableDetails:
    source = source or Source(made.settings, None)
    return one_table.table_details(source, source.pipeline(made.pipeline), table, readable=readable)


def linked(view: TableDetails, side: str) -> dict[str, list[str]]:
    """Links of each column that has some: name and what is done, those of other pipelines with the pipeline."""
    found = {}
    for column in view.columns:
        of = getattr(column, side)
        if of:
            found[column.name] = [
                f"{'' if one.pipeline == view.pipeline else one.pipeline + ':'}{one.table}.{one.column}"
                f" {'/'.join(one.how)}"
                for one in of
            ]
    return found


def test_a_column_has_what_it_is_computed_from(shop: Workspace) -> None:
    assert linked(seen(shop, "s"), "reads") == {
        "id": ["raw.id identity"],
        "full_name": ["raw.Name transformation"],
        "total": ["raw.pieces transformation", "raw.price transformation"],
        "mrn": ["raw.mrn transformation (masked)"],
    }
    assert linked(seen(shop, "g"), "reads") == {"full_name": ["s.full_name identity"], "total": ["s.total aggregation"]}
    assert linked(seen(shop, "raw"), "reads") == {}


def test_a_column_has_what_uses_it_without_records_in_quarantine(shop: Workspace) -> None:
    assert linked(seen(shop, "raw"), "used_by") == {
        "id": ["s.id identity", "s.(rows) group by"],
        "Name": ["s.full_name transformation"],
        "price": ["s.total transformation", "s.(rows) filter"],
        "pieces": ["s.total transformation", "s.(rows) filter"],
        "mrn": ["s.mrn transformation (masked)"],
        "ok": ["s.(rows) filter"],
    }


def test_columns_that_decide_about_the_rows(shop: Workspace) -> None:
    rows = {f"{one.table}.{one.column}": one.how for one in seen(shop, "s").rows_by}
    assert rows == {
        "raw.id": ("group by",), "raw.ok": ("filter",), "raw.price": ("filter",), "raw.pieces": ("filter",),
    }  # fmt: skip


def test_a_python_function_is_taken_as_it_is_declared_and_else_may_use_all_that_it_reads(shop: Workspace) -> None:
    view = seen(shop, "p")
    assert view.unsure == "a Python function computes it"
    assert linked(view, "reads") == {
        "known": ["s.total transformation"],
        "other": ["g.* transformation", "s.* transformation"],
    }
    used = linked(seen(shop, "s"), "used_by")
    assert used["total"] == ["g.total aggregation", "p.known transformation", "p.other transformation",
                             "p.(rows) filter"]  # fmt: skip
    assert used["mrn"] == ["p.other transformation", "p.(rows) filter"]


def test_links_are_those_of_the_impact_of_a_column(shop: Workspace) -> None:
    """Over all tables, what uses a column is what its impact says of the first step."""
    pipeline, tables = shop.definition, ("raw", "s", "g", "p")
    for table in tables:
        view = seen(shop, table)
        for column in view.columns:
            if column.of_engine:
                continue
            name = f"{table}.{column.name.lower()}"
            affected = impact.impact(pipeline, shop.lake, name).affected
            first = {(one.table, one.column) for one in affected if name in one.of and one.table in tables}
            assert {(one.table, one.column) for one in column.used_by} == first, name


def test_the_lineage_is_read_once_until_a_definition_or_columns_change(
    shop: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real = column_links.lineage
    monkeypatch.setattr(column_links, "lineage", lambda *given: calls.append("once") or real(*given))  # type: ignore[func-returns-value]
    source = Source(shop.settings, None)
    for table in ("raw", "s", "g", "p", "s"):
        assert seen(shop, table, source=source).columns
    write(shop, "s", id=2, full_name="Bo", total=7, mrn="y", _chunk=1, _pos=0)  # further rows of the same columns
    assert seen(shop, "s", source=source).rows == 2
    assert calls == ["once"]
    shop.edit("pipeline.yaml", "price * pieces", "price + pieces + id")
    assert linked(seen(shop, "s", source=source), "reads")["total"][0] == "raw.id transformation"
    row = pa.Table.from_pylist([{"full_name": "Ada", "total": 1, "n": 1, "more": 1}])
    write_deltalake(shop.uri("g"), row, mode="append", schema_mode="merge")
    assert "more" in {column.name for column in seen(shop, "g", source=source).columns}
    assert calls == ["once"] * 3


def test_a_table_is_shown_though_another_one_cannot_be_read(shop: Workspace) -> None:
    log = Path(shop.uri("g")) / "_delta_log"
    for file in log.iterdir():
        file.unlink()
    log.rmdir()
    view = seen(shop, "s")
    assert [column.name for column in view.columns][:2] == ["id", "full_name"]
    assert linked(view, "reads") == linked(view, "used_by") == {}
    assert "not a Delta table" in view.unsure


@pytest.fixture
def reader(shop: Workspace) -> Workspace:
    """A pipeline that reads a silver table of the shop."""
    made = Workspace(shop.folder, "reader")
    made.define(f"name: reader\nbronze:\n  copied: {{path: '{shop.uri('s')}', format: delta}}\n")
    write(made, "copied", id=1, full_name="Ada", total=6, receipt_time=1, source_file="s", _chunk=0, _pos=0)
    return made


def test_columns_of_another_pipeline_are_named_to_who_may_read_it(shop: Workspace, reader: Workspace) -> None:
    assert linked(seen(reader, "copied", "heart_rate"), "reads") == {
        "id": ["heart_rate:s.id identity"],
        "full_name": ["heart_rate:s.full_name identity"],
        "total": ["heart_rate:s.total identity"],
    }
    used = linked(seen(shop, "s", "reader"), "used_by")
    assert used["full_name"][-1] == "reader:copied.full_name identity"
    assert "reader:" not in str(used["mrn"])  # it is not in that table


def test_columns_of_another_pipeline_are_not_named_to_others(shop: Workspace, reader: Workspace) -> None:
    assert linked(seen(reader, "copied"), "reads") == {}
    for readable in ((), ("heart_rate",), ("other",)):
        assert "reader" not in str(seen(shop, "s", *readable))


def test_a_table_of_another_lake_with_the_same_names_is_none_of_this_one(
    shop: Workspace, reader: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = str(tmp_path_factory.mktemp("other") / "heart_rate" / "silver" / "s")
    reader.edit("pipeline.yaml", shop.uri("s"), other)
    assert linked(seen(reader, "copied", "heart_rate"), "reads") == {}
    assert "reader" not in str(seen(shop, "s", "reader"))


def test_a_pipeline_with_mistakes_hides_no_others(shop: Workspace, reader: Workspace) -> None:
    mistaken = Workspace(shop.folder, "a_mistaken")
    mistaken.define("name: a_mistaken\nbronze: {x: {pth: y}}\n")
    assert "reader:copied" in str(linked(seen(shop, "s", "reader", "a_mistaken"), "used_by"))
