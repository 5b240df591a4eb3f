"""What OpenLineage is told of a try: which tables it read and wrote, by names that other programs use too."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from sluicegate.airflow.reporting import openlineage
from sluicegate.airflow.reporting.openlineage import dataset, try_lineage
from sluicegate.lake import log
from tests.conftest import Workspace
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import job_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


def commit(workspace: Workspace, table: str, **said: Any) -> None:
    """Adds two rows to a table, as the second try of a run of ours."""
    facts = {"run_id": "one", "try": 2, "until": 7, "inputs": {}} | said
    told = CommitProperties(custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})})
    rows = pa.table({"x": [1, 2]})
    write_deltalake(workspace.uri(table), rows, mode="append", commit_properties=told)


def told(workspace: Workspace, *layers: Any, attempt: int = 2) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and outputs by name, each with the values of its facets."""
    found = try_lineage(workspace.definition, workspace.lake, layers, "one", attempt)
    assert {one.namespace for one in [*found.inputs, *found.outputs]} <= {"file"}
    inputs = {
        one.name: (
            one.facets["version"].datasetVersion if one.facets else None,
            {rule.assertion: rule.success for facet in one.inputFacets.values() for rule in facet.assertions},
        )
        for one in found.inputs
    }
    outputs = {
        one.name: (
            one.facets["version"].datasetVersion if "version" in one.facets else None,
            one.outputFacets["outputStatistics"].rowCount,
        )
        for one in found.outputs
    }
    return inputs, outputs


def test_bronze_reads_landing_folders(workspace: Workspace) -> None:
    commit(workspace, "patients_bronze", run_id="before")
    commit(workspace, "patients_bronze", **{"try": 1})
    commit(workspace, "patients_bronze")
    commit(workspace, "patients_bronze")
    landed = f"{workspace.folder}/landing/patients"
    assert told(workspace, "bronze") == ({landed: (None, {})}, {workspace.uri("patients_bronze"): ("3", 4)})
    assert told(workspace, "bronze", attempt=1)[1] == {workspace.uri("patients_bronze"): ("1", 2)}


def test_silver_reads_versions_and_says_how_its_rows_were_judged(workspace: Workspace) -> None:
    commit(
        workspace, "recordings_enriched", inputs={"patients": "some-id@4"}, written=5, quarantined=1,
        expectations={"valid_heartrate": {"passed": 5, "failed": 1}, "known_patient": {"passed": 6, "failed": 0}},
    )  # fmt: skip
    inputs, outputs = told(workspace, "silver")
    assert inputs == {
        workspace.uri("recordings_bronze"): ("7", {"valid_heartrate": False, "known_patient": True}),
        workspace.uri("patients"): ("4", {}),
    }
    assert outputs == {
        workspace.uri("recordings_enriched"): ("0", 5),
        workspace.uri("recordings_enriched_quarantine"): (None, 1),
    }


def test_a_task_of_all_layers_tells_of_all_their_tables(workspace: Workspace) -> None:
    commit(workspace, "patients_bronze")
    commit(workspace, "recordings_enriched", inputs={"patients": "some-id@4"}, written=5)
    commit(workspace, "daily_patient_avg")
    inputs, outputs = told(workspace, "bronze", "silver", "gold")
    wanted = ("patients_bronze", "recordings_enriched", "daily_patient_avg")
    assert list(outputs) == [workspace.uri(table) for table in wanted]
    each = [told(workspace, layer) for layer in ("bronze", "silver", "gold")]
    assert inputs == {name: facts for found, _ in each for name, facts in found.items()}


def test_what_a_try_did_not_write_is_not_told_of(workspace: Workspace) -> None:
    assert told(workspace, "gold") == ({}, {})
    commit(workspace, "daily_patient_avg", run_id="another")
    assert told(workspace, "gold") == ({}, {})


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("theirs", [-1, 0, 1, 2])
def test_a_try_is_told_of_whole_though_it_has_more_commits_than_the_NEWEST(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, beyond: int, theirs: int
) -> None:
    """Also where somebody else's commit is among them."""
    monkeypatch.setattr(openlineage, "NEWEST", 3)
    uri, count = workspace.uri("daily_patient_avg"), 3 + beyond
    commit(workspace, "daily_patient_avg", run_id="before")
    for number in range(count):
        if number == theirs:
            write_deltalake(uri, pa.table({"x": [0]}), mode="append")
        commit(workspace, "daily_patient_avg")
    version = str(count + (0 <= theirs < count))
    assert told(workspace, "gold")[1] == {uri: (version, 2 * count)}


def test_airflows_provider_takes_it_from_the_task(workspace: Workspace) -> None:
    from airflow.providers.openlineage.extractors import ExtractorManager
    from airflow.utils.state import TaskInstanceState

    from tests.support.airflow_runs import context_of

    commit(workspace, "daily_patient_avg", run_id="one", **{"try": 1})
    job = job_of(workspace, "gold")
    context = context_of(job, run_id="one")
    for state in (TaskInstanceState.SUCCESS, TaskInstanceState.FAILED):
        job._lineage = try_lineage(workspace.definition, workspace.lake, job.layers, "one", 1)
        found = ExtractorManager().extract_metadata(context["dag_run"], job, state, context["ti"])
        assert [one.name for one in found.outputs] == [workspace.uri("daily_patient_avg")]
    job._lineage = None
    found = ExtractorManager().extract_metadata(context["dag_run"], job, TaskInstanceState.SUCCESS, context["ti"])
    assert (found.inputs, found.outputs) == ([], [])


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("/lake/a b", "file", "/lake/a b"),
        ("file:///lake/a%20b", "file", "/lake/a b"),
        ("s3a://bucket/x/y", "s3://bucket", "x/y"),
        ("s3://bucket/x#1?", "s3://bucket", "x#1?"),
        ("gs://bucket/x", "gs://bucket", "x"),
        ("abfss://in@store.dfs.core.windows.net/x", "abfss://in@store.dfs.core.windows.net", "x"),
        ("hdfs://name:8020/x/y", "hdfs://name:8020", "/x/y"),
    ],
)
def test_names_are_those_of_the_naming_specification(uri: str, namespace: str, name: str) -> None:
    assert dataset(uri) == (namespace, name)


def test_a_table_of_several_flows_reads_each_of_their_tables_as_of_its_own_version(workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  eu: {path: '${landing}/eu', format: json}\n"
        "  us: {path: '${landing}/us', format: json}\nsilver:\n  t: {flows: {a: {from: eu}, b: {from: us}}}\n"
    )
    commit(workspace, "t", streams={"a": {"source_id": "x", "until": 3}, "b": {"source_id": "y", "until": 5}})
    inputs, _ = told(workspace, "silver")
    assert inputs == {workspace.uri("eu"): ("3", {}), workspace.uri("us"): ("5", {})}


FIELD = {
    "type": "object",
    "required": ["namespace", "name", "field"],
    "additionalProperties": False,
    "properties": {
        "namespace": {"type": "string"},
        "name": {"type": "string"},
        "field": {"type": "string"},
        "transformations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "additionalProperties": False,
                "properties": {
                    "type": {"enum": ["DIRECT", "INDIRECT"]},
                    "subtype": {"type": "string"},
                    "description": {"type": ["string", "null"]},
                    "masking": {"type": "boolean"},
                },
            },
        },
    },
}
# Version 1-2-0 of the facet; the events' own additions begin with an underscore.
COLUMN_LINEAGE = {
    "type": "object",
    "required": ["_producer", "_schemaURL", "fields"],
    "properties": {
        "_producer": {"type": "string", "format": "uri"},
        "_schemaURL": {"const": "https://openlineage.io/spec/facets/1-2-0/ColumnLineageDatasetFacet.json"
                                "#/$defs/ColumnLineageDatasetFacet"},
        "fields": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["inputFields"],
                "properties": {"inputFields": {"type": "array", "items": FIELD}},
            },
        },
        "dataset": {"type": "array", "items": FIELD},
    },
}  # fmt: skip


def column_lineage(workspace: Workspace, *layers: Any) -> dict[str, Any]:
    """Facets of what a try wrote as they are sent, by the address of the table, each checked by its schema."""
    import jsonschema
    from openlineage.client.serde import Serde

    found = try_lineage(workspace.definition, workspace.lake, layers, "one", 2)
    facets = {}
    for one in found.outputs:
        if "columnLineage" in one.facets:
            facets[one.name] = json.loads(Serde.to_json(one.facets["columnLineage"]))
            jsonschema.validate(facets[one.name], COLUMN_LINEAGE)
    return facets


def inputs_of(facet: dict[str, Any], column: str) -> dict[tuple[str, str], list[str]]:
    fields = facet["dataset"] if column == "" else facet["fields"][column]["inputFields"]
    return {
        (one["name"].rsplit("/", 1)[-1], one["field"]): [f"{t['type']} {t['subtype']}" for t in one["transformations"]]
        for one in fields
    }


def test_events_have_the_lineage_of_columns(workspace: Workspace) -> None:
    commit(workspace, "recordings_bronze")
    commit(workspace, "recordings_enriched", inputs={"patients": "some-id@4"}, written=5, quarantined=1)
    commit(workspace, "daily_patient_avg")
    facets = column_lineage(workspace, "bronze", "silver", "gold")
    landed = facets[workspace.uri("recordings_bronze")]
    assert inputs_of(landed, "heartrate") == {("recordings", "heartrate"): ["DIRECT IDENTITY"]}
    assert "source_file" not in landed["fields"]
    silver = facets[workspace.uri("recordings_enriched")]
    assert inputs_of(silver, "time") == {("recordings_bronze", "time"): ["DIRECT TRANSFORMATION"]}
    assert inputs_of(silver, "")[("patients", "mrn")] == ["INDIRECT JOIN"]
    quarantine = facets[workspace.uri("recordings_enriched_quarantine")]
    assert ("recordings_bronze", "heartrate") in inputs_of(quarantine, "_record")
    gold = facets[workspace.uri("daily_patient_avg")]
    assert inputs_of(gold, "avg_heartrate") == {("recordings_enriched", "heartrate"): ["DIRECT AGGREGATION"]}


def test_a_masked_column_is_told_as_masked(workspace: Workspace) -> None:
    workspace.edit(
        "pipeline.yaml",
        "    pii: [mrn, name]\n\ngold",
        "    pii: [mrn, name]\n    deidentified: {name: mask, mrn: mask}\ngold",
    )
    commit(workspace, "recordings_enriched_deidentified")
    (facet,) = column_lineage(workspace, "silver").values()
    (source,) = facet["fields"]["name"]["inputFields"]
    assert source["transformations"] == [{"type": "DIRECT", "subtype": "TRANSFORMATION", "masking": True}]
    assert not facet["fields"]["device_id"]["inputFields"][0]["transformations"][0]["masking"]
