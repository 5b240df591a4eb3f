"""What a table's first discovery says of the folders of its files; no Spark."""

from __future__ import annotations

import pytest

from sluicegate.definition import load
from sluicegate.lake import layout
from sluicegate.landing import intake
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


def remarks(workspace: Workspace, fields: str = "") -> tuple[str, ...]:
    """Remarks of the next discovery of a table whose folder, too, looks like a column."""
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/of=1', format: json{fields}}}\n")
    table = load("heart_rate", workspace.settings).bronze["things"]
    return intake.enter("things", table, layout.Lake(workspace.settings.lake, "heart_rate")).remarks


def test_folders_of_values_that_become_no_column_are_told_once(workspace: Workspace) -> None:
    workspace.land("of=1/day=2026-01-01/hour=7/a.json", '{"a": 1}')
    workspace.land("of=1/day=2026-01-02/hour=8/b.json", '{"a": 1}')
    [remark] = remarks(workspace)
    assert "day, hour" in remark
    assert "of," not in remark
    workspace.land("of=1/day=2026-01-03/c.json", '{"a": 1}')
    assert remarks(workspace) == ()


@pytest.mark.parametrize(
    ("path", "fields", "columns"),
    [
        ("day=1/hour=7/a.json", ", partitionColumns: [day]", ["hour"]),
        ("day=1/hour=7/a.json", ", partitionColumns: [hour, day]", []),
        ("2026/a=b.json", "", []),
        ("a.json", "", []),
        ("day=1/a.json", ", includeExistingFiles: false", []),
    ],
)
def test_folders_that_the_definition_names_are_not(
    workspace: Workspace, path: str, fields: str, columns: list[str]
) -> None:
    workspace.land(f"of=1/{path}", '{"a": 1}')
    told = [remark for remark in remarks(workspace, fields) if "partitionColumns" in remark]
    assert len(told) == len(columns)
    assert all(column in told[0] for column in columns)
