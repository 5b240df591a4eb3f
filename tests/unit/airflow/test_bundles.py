"""Definitions in a DAG bundle with versions: what waits in the triggerer finds them where their version lies then."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from sluicegate.airflow import bundles
from sluicegate.errors import DefinitionError
from sluicegate.settings import Settings
from tests.conftest import Workspace, beat
from tests.support.airflow_runs import context_of
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


@pytest.fixture
def origin(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a bundle ``ours`` with the versions ``a`` and ``b``, of which only the latter has no mistake."""
    folder = tmp_path / "origin"
    for version in ("a", "b"):
        shutil.copytree(workspace.folder / "pipelines", folder / version / "defined" / "pipelines")
        (folder / version / "dags").mkdir()
    (folder / "a" / "defined" / "pipelines" / "heart_rate" / "pipeline.yaml").write_text("name: heart_rate\n")
    config = {
        "name": "ours",
        "classpath": "tests.support.copied_bundle.CopiedBundle",
        "kwargs": {"origin": str(folder)},
    }
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH", str(tmp_path / "bundles"))
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([config]))
    return folder


def parsed(workspace: Workspace, version: str | None, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a DAG file in a version of the bundle, as the process has them that parses it."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    bundle = DagBundlesManager().get_bundle("ours", version)
    bundle.initialize()
    monkeypatch.setattr(sys, "path", [*sys.path, str(bundle.path)])
    of = workspace.settings
    return Settings.of(of.lake, of.landing, bundle.path / "defined" / "pipelines", of.master)


def deferred(workspace: Workspace, settings: Settings) -> Any:
    """The trigger that the sensor of a run is deferred to, as the triggerer makes it of its arguments."""
    from airflow.sdk.exceptions import TaskDeferred

    from sluicegate.airflow.dag import medallion_dag

    task: Any = medallion_dag("heart_rate", settings).get_task("wait_for_files")
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context_of(task))
    trigger = caught.value.trigger
    _, arguments = trigger.serialize()
    return type(trigger)(**json.loads(json.dumps(arguments)) | {"every": 0.01})


def first_event(trigger: Any, then: Any = None) -> Any:
    async def wait() -> Any:
        events = trigger.run()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)
        if then is not None:
            then()
        event = await asyncio.wait_for(waiting, 20)
        await events.aclose()
        return event.payload

    return asyncio.run(wait())


def test_a_version_that_was_cleaned_away_is_fetched_where_it_is_needed(
    workspace: Workspace, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = parsed(workspace, "b", monkeypatch)
    trigger = deferred(workspace, settings)
    assert trigger.bundle == {"name": "ours", "version": "b", "path": "defined/pipelines"}
    assert "pipelines" not in trigger.places
    shutil.rmtree(settings.pipelines.parent.parent)  # no task of that version runs: Airflow cleans it away

    found = first_event(trigger, lambda: workspace.land("recordings/a.json", [beat(1, 1, 0, 60.0)]))
    assert found["found"]["files"] == 1
    assert settings.pipelines.is_dir()


def test_each_run_waits_by_its_own_version(workspace: Workspace, origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = deferred(workspace, parsed(workspace, "b", monkeypatch))
    _, arguments = trigger.serialize()
    arguments["bundle"] = {**trigger.bundle, "version": "a"}
    assert "SG201" in first_event(type(trigger)(**arguments))["error"]


def test_what_starts_runs_follows_the_newest_version(
    workspace: Workspace, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = parsed(workspace, None, monkeypatch)
    where = bundles.trigger_arguments(settings)
    assert where["bundle"] == {"name": "ours", "path": "defined/pipelines"}
    places = bundles.Places(where["places"], where["bundle"])
    assert places.settings().pipelines == settings.pipelines
    # It looks for newer ones as often as the DAG processor, and not before.
    shutil.copytree(origin / "a", origin / "c")
    from sluicegate.definition import load

    assert load("heart_rate", places.settings()).name == "heart_rate"
    monkeypatch.setattr(places._bundle, "refresh_interval", -1)
    with pytest.raises(DefinitionError):
        load("heart_rate", places.settings())


def test_a_folder_beside_that_of_the_dags_is_found(
    workspace: Workspace, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle of git may be a folder of its repository."""
    settings = parsed(workspace, "b", monkeypatch)
    top = settings.pipelines.parent.parent
    monkeypatch.setattr(sys, "path", [*(one for one in sys.path if one != str(top)), str(top / "dags")])
    assert bundles.bundle_place(settings.pipelines) == {"name": "ours", "version": "b", "path": "../defined/pipelines"}


def test_other_folders_keep_their_paths(workspace: Workspace, origin: Path) -> None:
    assert bundles.bundle_place(workspace.settings.pipelines) is None
    assert bundles.trigger_arguments(workspace.settings) == {"places": workspace.settings.places}
    trigger = deferred(workspace, workspace.settings)
    assert (trigger.places, trigger.bundle) == (workspace.settings.places, None)
    assert "bundle" not in trigger.serialize()[1]
    assert dag_of(workspace) is not None
