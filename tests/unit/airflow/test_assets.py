"""The tables as assets of Airflow: which there are, and of which versions an event tells."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from sluicegate.lake import log
from tests.conftest import Workspace
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import task_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


def commit(workspace: Workspace, table: str, ours: dict[str, Any] | None) -> None:
    """Adds two rows to a table, as a run of ours, or another program."""
    said = {"userMetadata": json.dumps({log.METADATA: ours})} if ours is not None else {}
    rows = pa.table({"x": [1, 2]})
    write_deltalake(workspace.uri(table), rows, mode="append", commit_properties=CommitProperties(custom_metadata=said))


def news(workspace: Workspace, last: dict[str, Any] | None = None) -> dict[str, Any]:
    from sluicegate.airflow.assets import unreported_tables as of

    tables = workspace.definition.names("silver")
    return {about.name: told for about, told in of(workspace.lake, "silver", tables, lambda _: last or {})}


def test_a_table_is_told_of_once_for_each_version(workspace: Workspace) -> None:
    assert news(workspace) == {}
    facts = {
        "mode": "incremental",
        "run_id": "one",
        "read": 3,
        "written": 2,
        "quarantined": 1,
        "expectations": {"e": 1},
    }
    commit(workspace, "patients", facts | {"inputs": {"secret": "thing"}})
    told = {"table": workspace.uri("patients"), "version": 0, "rows": 2, **facts}
    assert news(workspace) == {"heart_rate.patients": told}
    assert news(workspace, told) == {}
    commit(workspace, "patients", None)  # not one of ours
    assert news(workspace, told) == {}
    commit(workspace, "patients", {"run_id": "two"})
    assert news(workspace, told) == {
        "heart_rate.patients": {"table": workspace.uri("patients"), "version": 2, "rows": 6, "run_id": "two"}
    }


def test_assets_are_grouped_by_pipeline_and_known_by_name_alone(workspace: Workspace) -> None:
    from sluicegate.airflow.assets import asset

    outlets = task_of(workspace, "gold").outlets
    assert {(outlet.name, outlet.group) for outlet in outlets} == {("heart_rate.daily_patient_avg", "heart_rate")}
    of_another_dag = asset("heart_rate", "daily_patient_avg")
    assert [(outlet.name, outlet.uri, outlet.group) for outlet in outlets] == [
        (of_another_dag.name, of_another_dag.uri, of_another_dag.group)
    ]


def test_a_gold_table_of_which_no_row_changed_is_not_told_of(workspace: Workspace) -> None:
    from sluicegate.airflow.assets import unreported_tables as of

    def versions() -> list[int]:
        last = {"table": uri, "version": 0}
        return [told["version"] for _, told in of(workspace.lake, "gold", ["daily_patient_avg"], lambda _: last)]

    uri = workspace.uri("daily_patient_avg")
    commit(workspace, "daily_patient_avg", {"run_id": "one"})
    said = CommitProperties(custom_metadata={"userMetadata": json.dumps({log.METADATA: {"run_id": "two"}})})
    write_deltalake(uri, pa.table({"x": pa.array([], pa.int64())}), mode="append", commit_properties=said)
    assert versions() == []
    commit(workspace, "daily_patient_avg", {"run_id": "three"})
    assert versions() == [2]


def test_a_table_that_was_made_anew_elsewhere_is_told_of(workspace: Workspace) -> None:
    commit(workspace, "patients", {"run_id": "one"})
    assert news(workspace, {"table": "/another/lake", "version": 0})
    assert news(workspace, {"table": workspace.uri("patients"), "version": 7})


def test_each_layer_has_its_tables_as_outlets(workspace: Workspace) -> None:
    outlets = {layer: [one.name for one in task_of(workspace, layer).outlets] for layer in ("bronze", "silver", "gold")}
    assert outlets == {
        "bronze": ["heart_rate.recordings_bronze", "heart_rate.patients_bronze"],
        "silver": ["heart_rate.patients", "heart_rate.recordings_enriched"],
        "gold": ["heart_rate.daily_patient_avg"],
    }
    for layer in outlets:
        assert set(task_of(workspace, layer).outlets) <= set(task_of(workspace, layer).inlets)
    assert set(task_of(workspace, "bronze").outlets) <= set(task_of(workspace, "silver").inlets)
