"""Flows of a definition with many tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.definition import load
from sluicegate.flow.flows import flows
from sluicegate.lake.layout import Lake
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit


def write_definition(folder: Path, sources: int) -> Settings:
    """A definition of so many sources, each with a table of each layer; a rule of gold reads silver."""
    lines = ["name: many", "bronze:"]
    lines += [f'  landed_{n}: {{path: "${{landing}}/{n}", format: json}}' for n in range(sources)]
    lines += ["silver:"]
    lines += [f"  typed_{n}: {{sql: 'SELECT id FROM STREAM(landed_{n})', keys: [id]}}" for n in range(sources)]
    lines += ["gold:"]
    for n in range(sources):
        query = f"SELECT id, count(*) AS n FROM typed_{n} GROUP BY id"
        rule = f"{{known: {{foreign_key: [id], references: typed_{n}}}}}"
        lines += [f"  ids_{n}: {{sql: '{query}', expect_table: {rule}}}"]
    home = folder / "pipelines" / "many"
    home.mkdir(parents=True)
    (home / "pipeline.yaml").write_text("\n".join(lines) + "\n")
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


@pytest.mark.parametrize("layer", ["bronze", "silver", "gold"])
def test_twice_as_many_tables_take_twice_the_work(tmp_path: Path, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    address = Lake.table
    monkeypatch.setattr(Lake, "table", lambda lake, *facts: (calls.append(facts[-1]), address(lake, *facts))[1])
    counts = []
    for sources in (10, 20):
        settings = write_definition(tmp_path / str(sources), sources)
        pipeline = load("many", settings)
        calls.clear()
        found = flows(pipeline, Lake(settings.lake, "many"), layer)
        counts.append(len(calls))
        assert len(found) == sources
    assert counts[1] <= 2 * counts[0]


def test_a_rule_about_a_table_reads_another_at_its_address(tmp_path: Path) -> None:
    settings = write_definition(tmp_path, 2)
    lake = Lake(settings.lake, "many")
    found = flows(load("many", settings), lake, "gold")
    assert [flow.references for flow in found.values()] == [
        {f"typed_{number}": lake.table("silver", f"typed_{number}")} for number in range(2)
    ]
