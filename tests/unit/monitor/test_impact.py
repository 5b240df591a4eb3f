"""What depends on a column, across the layers of a pipeline."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from sluicegate import api
from sluicegate.cli import app
from sluicegate.errors import ColumnMissing, PipelineMissing, UserError
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


def affected(workspace: Workspace, column: str) -> dict[str, str]:
    """Affected columns, each with what is done with what it depends on."""
    found = api.impact(workspace.definition, column).affected
    return {f"{one.table}.{one.column}": ", ".join(one.how).lower() for one in found}


def test_a_column_that_goes_through_all_layers(workspace: Workspace) -> None:
    assert affected(workspace, "recordings_bronze.heartrate") == {
        "recordings_enriched.heartrate": "identity",
        "recordings_enriched.(rows)": "filter",
        "recordings_enriched_quarantine.heartrate": "identity",
        "recordings_enriched_quarantine._failed_expectations": "conditional",
        "recordings_enriched_quarantine._record": "transformation",
        "recordings_enriched_quarantine.(rows)": "filter",
        "daily_patient_avg.avg_heartrate": "aggregation",
        "daily_patient_avg.(rows)": "rows",
    }


def test_a_column_that_only_decides_is_no_part_of_the_value(workspace: Workspace) -> None:
    found = {f"{one.table}.{one.column}": one for one in api.impact(workspace.definition, "patients.mrn").affected}
    assert not found["recordings_enriched.(rows)"].direct
    assert "recordings_enriched.mrn" not in found


def test_what_names_the_column_in_the_definition(workspace: Workspace) -> None:
    found = api.impact(workspace.definition, "recordings_bronze.heartrate")
    assert found.named_by == ("recordings_enriched: expectation valid_heartrate",)
    assert "recordings_enriched: keys" in api.impact(workspace.definition, "recordings_bronze.time").named_by


def test_rules_of_other_tables_that_read_it(workspace: Workspace) -> None:
    workspace.edit(
        "pipeline.yaml", "    event_time: time\n",
        "    event_time: time\n    expect_table:\n"
        "      known: {foreign_key: [mrn], references: patients (mrn)}\n"
        "      named: {sql: SELECT r.mrn FROM recordings_enriched r JOIN patients p ON r.name <> p.name}\n",
    )  # fmt: skip
    assert "recordings_enriched: rule known" in api.impact(workspace.definition, "patients.mrn").named_by
    found = api.impact(workspace.definition, "patients.name").named_by
    assert ("recordings_enriched: rule named" in found, "recordings_enriched: rule known" in found) == (True, False)


def test_a_count_of_rows_depends_on_what_decides_about_them(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "\ngold:", "\ngold:\n  n: {sql: SELECT count(*) AS n FROM recordings_enriched}")
    assert affected(workspace, "recordings_bronze.heartrate")["n.(rows)"] == "rows"


def test_names_in_any_case(workspace: Workspace) -> None:
    found = api.impact(workspace.definition, "Daily_Patient_Avg.AVG_heartrate")
    assert (found.table, found.column, found.affected) == ("daily_patient_avg", "avg_heartrate", ())


def test_through_a_star_of_columns_that_are_not_known_yet(workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/in', format: json}\n"
        "silver:\n  s: {sql: SELECT * FROM STREAM(raw)}\ngold:\n  g: {sql: SELECT sum(n) AS m FROM s}\n"
    )
    assert affected(workspace, "raw.n") == {"s.n": "identity", "s_quarantine.n": "identity",
                                            "s_quarantine._record": "transformation", "g.m": "aggregation"}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "hint"),
    [
        ("recordings_enriched.hartrate", ColumnMissing, "did you mean heartrate?"),
        ("recordings_bronze.hartrate", ColumnMissing, "did you mean heartrate?"),
        ("daily_patient_avg.nothing_like_it", ColumnMissing, "mrn, name, avg_heartrate, date"),
        ("recordings_enrich.mrn", PipelineMissing, "did you mean recordings_enriched?"),
        ("mrn", UserError, "TABLE.COLUMN"),
    ],
)
def test_unknown_names(workspace: Workspace, name: str, kind: type[UserError], hint: str) -> None:
    with pytest.raises(kind) as error:
        api.impact(workspace.definition, name)
    assert hint in error.value.hint


def test_a_table_that_has_run_knows_all_its_columns(workspace: Workspace) -> None:
    api.impact(workspace.definition, "recordings_bronze.something_else")
    write_deltalake(workspace.uri("recordings_bronze"), pa.table({"mrn": [1]}))
    with pytest.raises(ColumnMissing):
        api.impact(workspace.definition, "recordings_bronze.something_else")


def shown(workspace: Workspace, *arguments: str) -> str:
    places = [f"--{name}={workspace.folder / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["plan", "heart_rate", *arguments, *places])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_shows_it(workspace: Workspace) -> None:
    text = shown(workspace, "--impact", "recordings_bronze.heartrate")
    assert "recordings_bronze.heartrate" in text
    assert "recordings_enriched: expectation valid_heartrate" in text
    assert "nothing depends on daily_patient_avg.mrn" in shown(workspace, "--impact", "daily_patient_avg.mrn")
    facts = json.loads(shown(workspace, "--impact", "recordings_bronze.mrn", "--json"))
    assert facts["affected"][0] == {
        "layer": "silver", "table": "recordings_enriched", "column": "mrn", "direct": True, "how": ["IDENTITY"],
        "of": ["recordings_bronze.mrn"],
    }  # fmt: skip


def test_the_command_tells_what_is_not_certain(workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/in', format: json}\n"
        "gold:\n  g: {python: 'g.py:make', reads: [raw]}\n",
        g__py="def make(tables): ...\n",
    )
    assert "g: a Python function computes it" in shown(workspace, "--impact", "raw.x")
