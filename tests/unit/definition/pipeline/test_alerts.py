"""Mistakes in ``alerts``, each with its line."""

from __future__ import annotations

import pytest

from sluicegate.errors import DefinitionError
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("freshness: {recordings_bronze: {}}", "warn, fail or both"),
        ("freshness: {recordings_bronze: {warn: 2 days, fail: 1 day}}", "fail above 1 day"),
        ("freshness: {recordings_bronze: {warn: 0 days}}", "duration of 0"),
        ("freshness: {recordings_bronze: {warn: soon}}", "duration"),
        ("freshness: {recording_bronze: {warn: 1 day}}", "table recording_bronze"),
        ("volume: {recordings_bronze: {fail: {}}}", "min, max or both"),
        ("volume: {recordings_bronze: {warn: {min: 1}, fail: {min: 1}}}", "fail below 1"),
        ("volume: {recordings_bronze: {warn: {max: 9}, fail: {max: 9}}}", "fail above 9"),
        ("volume: {recordings_enriched: {of: files, fail: {min: 1}}}", "of: files"),
        ("volume: {recordings_bronze: {per: week, fail: {min: 1}}}", "per"),
        ("backlog: {recordings_bronze: {warn: 2, fail: 2}}", "fail above 2"),
        ("backlog: {recordings_bronze: {warn: -1}}", "warn"),
        ("rule_rate: {recordings_enriched: {valid: {fail: 1%}}}", "expectation valid of recordings_enriched"),
        ("rule_rate: {recordings_enriched: {}}", "recordings_enriched names no expectation"),
        ("rule_rate: {recordings_enriched: {valid_heartrate: {warn: 5%, fail: 5%}}}", "fail above 5%"),
        ("rule_rate: {recordings_enriched: {valid_heartrate: {fail: 101%}}}", "neither a number of rows"),
        ("schedule: daily", "alerts is empty|daily"),
        ("latency: {}", "latency"),
    ],
)
def test_a_mistake_has_its_line(workspace: Workspace, text: str, said: str) -> None:
    workspace.edit("pipeline.yaml", "\nbronze:", f"\nalerts:\n  {text}\nbronze:")
    with pytest.raises(DefinitionError, match=said) as error:
        _ = workspace.definition
    lines = (workspace.folder / "pipelines" / "heart_rate" / "pipeline.yaml").read_text().splitlines()
    assert all(
        mistake.line in (lines.index("alerts:") + 1, lines.index("alerts:") + 2) for mistake in error.value.mistakes
    )


def test_limits_of_other_kinds_do_not_exclude_each_other(workspace: Workspace) -> None:
    text = "{warn: {min: 5, max: 6}, fail: {min: 4, max: 7}}"
    rate = "{valid_heartrate: {warn: 100, fail: 1%}}"
    workspace.edit(
        "pipeline.yaml", "\nbronze:",
        f"\nalerts: {{volume: {{recordings_bronze: {text}}}, rule_rate: {{recordings_enriched: {rate}}}}}\nbronze:",
    )  # fmt: skip
    alerts = workspace.definition.alerts
    assert alerts is not None
    assert alerts.schedule == "*/15 * * * *"


def test_no_pipeline_may_be_called_as_the_dag_of_alerts(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "\nbronze:", "\nalerts: {backlog: {recordings_bronze: {fail: 1}}}\nbronze:")
    other = workspace.folder / "pipelines" / "heart_rate_alerts"
    other.mkdir()
    (other / "pipeline.yaml").write_text("name: heart_rate_alerts\nbronze: {}\n")
    with pytest.raises(DefinitionError, match="heart_rate_alerts"):
        _ = workspace.definition
