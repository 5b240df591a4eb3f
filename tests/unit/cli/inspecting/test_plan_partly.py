"""``sluicegate plan`` after an edit of a definition, and where landing or the lake cannot be reached."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from typer.testing import CliRunner

from sluicegate import api
from sluicegate.cli import app
from sluicegate.errors import LandingMissing
from sluicegate.flow import flows
from sluicegate.lake import log
from tests.conftest import Workspace
from tests.support.page_world import PageWorld

pytestmark = pytest.mark.unit

DEFINED = """\
name: heart_rate
bronze: {{raw: {{path: "${{landing}}/raw", format: json}}}}
silver:
  t: {{sql: "SELECT id, at FROM STREAM(raw)", event_time: at, expect_all: {{there: {rule}}}}}
  copied: {{sql: "SELECT id FROM STREAM(raw)"}}
gold: {{g: {{sql: "SELECT {measure} AS n FROM t"}}}}
"""


@pytest.fixture
def made(tmp_path: Path) -> Workspace:
    """A lake whose tables the definition of now has made."""
    workspace = Workspace(tmp_path)
    workspace.define(DEFINED.format(rule="id > 0", measure="count(*)"))
    (tmp_path / "landing" / "raw").mkdir(parents=True)
    write_deltalake(workspace.uri("raw"), pa.table({"id": [1, 2], "at": ["2026-03-02", "2026-03-03"]}))
    definition = workspace.definition
    for name in ("t", "copied"):
        fill(workspace, "silver", name, {"definition": definition.silver[name].fingerprint, "mixed": False})
    gold = flows.flows(definition, workspace.lake, "gold")["g"]
    fill(workspace, "gold", "g", {"fingerprint": gold.fingerprint})
    return workspace


def fill(workspace: Workspace, layer: str, name: str, facts: dict[str, Any]) -> None:
    said = CommitProperties(custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})})
    uri = workspace.lake.table(layer, name)
    write_deltalake(uri, pa.table({"id": [1, 2]}), mode="append", commit_properties=said)


def planned(workspace: Workspace, *more: str) -> Any:
    places = [f"--{name}={workspace.folder / name}" for name in ("lake", "landing", "pipelines")]
    return CliRunner().invoke(app.app, ["plan", "heart_rate", *places, *more])


def facts_of(done: Any) -> dict[str, Any]:
    return {one["table"]: one.get("former_definition") for one in json.loads(done.stdout)["tables"]}


def test_a_table_of_todays_definition_is_not_said_to_be_of_another(made: Workspace) -> None:
    assert "former definition" not in planned(made).stdout
    assert set(facts_of(planned(made, "--json")).values()) == {None}


def test_an_edited_rule_leaves_rows_that_a_replay_reprocesses(made: Workspace) -> None:
    made.define(DEFINED.format(rule="id > 1", measure="count(*)"))
    said = planned(made)
    assert said.exit_code == 0, said.output
    [line] = [line for line in said.stdout.splitlines() if line.startswith("former definition")]
    assert line.startswith("former definition: t: its 2 rows still follow a former definition")
    found = facts_of(planned(made, "--json"))
    assert (found["copied"], found["g"]) == (None, None)
    assert found["t"]["rows"] == 2


def test_later_batches_of_todays_definition_leave_a_part(made: Workspace) -> None:
    fill(made, "silver", "t", {"definition": made.definition.silver["t"].fingerprint, "mixed": True})
    found = facts_of(planned(made, "--json"))["t"]
    assert (found["rows"], found["part"]) == (4, True)
    assert "some of its 4 rows may still follow" in planned(made).stdout


def test_gold_follows_an_edited_query_by_itself(made: Workspace) -> None:
    made.define(DEFINED.format(rule="id > 0", measure="max(id)"))
    found = facts_of(planned(made, "--json"))
    assert found["g"] == {"rows": 2, "part": False, "by_itself": True, "commands": []}
    assert found["t"] is None
    assert "a full refresh" in planned(made).stdout


def test_a_landing_folder_that_is_missing_does_not_end_the_plan(made: Workspace) -> None:
    shutil.rmtree(made.folder / "landing" / "raw")
    done = planned(made)
    assert done.exit_code == 0, done.output
    assert "the definition is valid" in done.stdout
    assert "does not exist" in done.stderr
    assert "the plan is incomplete" in done.stderr
    facts = json.loads(planned(made, "--json").stdout)
    assert (facts["complete"], [*facts["problems"]]) == (False, ["raw"])
    assert facts["problems"]["raw"]["code"] == LandingMissing.code
    assert "raw is" in done.stdout
    assert [one["table"] for one in facts["tables"]] == ["raw", "t", "copied", "g"]
    with pytest.raises(LandingMissing):  # a program that does not say that it copes
        api.plan(made.definition)


def test_a_lake_that_cannot_be_reached_does_not_end_the_plan(made: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{refusing.getsockname()[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        done = planned(made, "--lake", "s3://lake", "--json")
        facts = json.loads(done.stdout)
        assert done.exit_code == 0, done.output
        assert (facts["complete"], [*facts["problems"]]) == (False, ["raw", "t", "copied", "g"])
        assert facts["tables"][3]["how"].startswith("incremental")
        assert "does not answer" in facts["problems"]["g"]["message"]
        made.define("name: heart_rate\nbronze: {raw: {pth: x}}\n")
        assert planned(made, "--lake", "s3://lake").exit_code != 0


def test_rows_of_silver_stay_until_somebody_reprocesses_them(tmp_path: Path) -> None:
    """The page's world has offsets, and rows of a definition that is not today's."""
    world = PageWorld.at(tmp_path, runs=2)
    shown = planned(world.workspace)
    found = facts_of(planned(world.workspace, "--json"))["recordings_enriched"]
    assert (found["rows"], found["by_itself"]) == (70, False)
    [said] = [line for line in shown.stdout.splitlines() if line.startswith("former definition: recordings_enriched")]
    assert "70 rows" in said
    assert "sluicegate replay heart_rate recordings_enriched --everything" in shown.stdout


SINCE = {
    "keys": ("keys: [device_id, time]", "keys: [device_id]", "its keys change from device_id, time to device_id"),
    "sequence": ("event_time: time\n", "event_time: time\n    sequence_by: time\n", "it now has a sequence_by, time"),
    "type": ("r.heartrate", "CAST(r.heartrate AS DECIMAL(10, 2)) AS heartrate",
             "heartrate changes from DOUBLE to DECIMAL(10,2)"),
    "schema": ("event_time: time\n", "event_time: time\n    schema: device_id INT\n",
               "device_id changes from BIGINT to INT"),
}  # fmt: skip


@pytest.mark.parametrize("change", [*SINCE])
def test_a_change_that_makes_rows_incomparable_is_a_full_refresh(tmp_path: Path, change: str) -> None:
    world = PageWorld.at(tmp_path, runs=2)
    before, after, why = SINCE[change]
    world.workspace.edit("recordings_enriched.sql" if change == "type" else "pipeline.yaml", before, after)
    facts = next(one for one in json.loads(planned(world.workspace, "--json").stdout)["tables"]
                 if one["table"] == "recordings_enriched")  # fmt: skip
    assert facts["a run would"] == f"full refresh: {why}"
    assert facts["former_definition"] == {"rows": 70, "part": False, "by_itself": True, "commands": [], "why": why}
    assert f"full refresh, since {why}" in planned(world.workspace).stdout


def test_a_full_refresh_that_would_lose_former_values_is_refused_with_the_command(tmp_path: Path) -> None:
    world = PageWorld.at(tmp_path, runs=2)
    after = "keys: [device_id]\n    lookups: {patients: as_of_run}"
    world.workspace.edit("pipeline.yaml", "keys: [device_id, time]", after)
    shown = planned(world.workspace).stdout
    facts = {
        one["table"]: one["a run would"] for one in json.loads(planned(world.workspace, "--json").stdout)["tables"]
    }
    command = "sluicegate run heart_rate --full-refresh recordings_enriched"
    why = "its keys change from device_id, time to device_id"
    assert facts["recordings_enriched"] == f"fail: {why}; `{command}` rebuilds the table"
    assert f"refuses, since {why}: `{command}`" in shown


def test_what_follows_a_table_that_cannot_be_looked_into_is_not_known(made: Workspace) -> None:
    shutil.rmtree(made.folder / "landing" / "raw")
    would = {one["table"]: one["a run would"] for one in json.loads(planned(made, "--json").stdout)["tables"]}
    assert would["raw"].startswith("unknown: ")
    assert "do nothing" not in would.values()
