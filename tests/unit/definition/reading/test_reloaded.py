"""A definition is loaded again when, and only when, something that it is made of has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.definition import Pipeline
from sluicegate.definition.reading.reloaded import Reloaded
from sluicegate.errors import DefinitionError, PipelineMissing
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


def folder(workspace: Workspace) -> Path:
    return workspace.folder / "pipelines" / "heart_rate"


def of(pipeline: Pipeline) -> tuple[str | None, dict[str, str]]:
    """What the changes below change of a pipeline."""
    return pipeline.schedule, {name: table.query.text for name, table in pipeline.gold.items()}


def schedule_with_its_time_kept(workspace: Workspace) -> None:
    """As many letters in another order, and the time of the file put back, as ``rsync --times`` does."""
    file = folder(workspace) / "pipeline.yaml"
    before = file.stat()
    file.write_text(file.read_text().replace("*/15 * * * *", "* */15 * * *"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def query(workspace: Workspace) -> None:
    file = folder(workspace) / "daily_patient_avg.sql"
    file.write_text(file.read_text().replace("GROUP BY", "WHERE heartrate > 30 GROUP BY"))


def another_file(workspace: Workspace) -> None:
    (folder(workspace) / "more.sql").write_text("SELECT 1")


@pytest.mark.parametrize("change", [schedule_with_its_time_kept, query, another_file])
def test_what_has_changed_is_read_again_and_nothing_else(
    workspace: Workspace, change: Callable[[Workspace], None]
) -> None:
    definition = Reloaded("heart_rate")
    first = definition.load(workspace.settings)
    assert definition.load(workspace.settings) is first
    change(workspace)
    second = definition.load(workspace.settings)
    assert second is not first
    assert of(second) == of(workspace.definition)
    assert (of(second) == of(first)) is (change is another_file)
    assert definition.load(workspace.settings) is second


def test_variables_and_settings_are_a_part_of_it(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.edit("pipeline.yaml", "${landing}/patients", "${FOLDER_OF_PATIENTS}")
    monkeypatch.setenv("FOLDER_OF_PATIENTS", "/one")
    definition = Reloaded("heart_rate")
    assert definition.load(workspace.settings).bronze["patients_bronze"].path == "/one"
    monkeypatch.setenv("FOLDER_OF_PATIENTS", "/two")
    assert definition.load(workspace.settings).bronze["patients_bronze"].path == "/two"
    elsewhere = replace(workspace.settings, landing="/three")
    assert definition.load(elsewhere).bronze["recordings_bronze"].path == "/three/recordings"


def test_a_mistake_is_told_each_time_and_no_former_definition_stands_for_it(workspace: Workspace) -> None:
    definition = Reloaded("heart_rate")
    first = definition.load(workspace.settings)
    workspace.edit("pipeline.yaml", "format: json", "format: jason")
    for _ in range(2):
        with pytest.raises(DefinitionError, match="jason"):
            definition.load(workspace.settings)
    workspace.edit("pipeline.yaml", "format: jason", "format: json")
    assert of(definition.load(workspace.settings)) == of(first)
    (folder(workspace) / "pipeline.yaml").rename(workspace.folder / "pipeline.yaml")
    with pytest.raises(PipelineMissing):
        definition.load(workspace.settings)


def test_a_link_to_nothing_is_no_obstacle(workspace: Workspace) -> None:
    (folder(workspace) / "gone.txt").symlink_to(workspace.folder / "nothing")
    definition = Reloaded("heart_rate")
    assert definition.load(workspace.settings) is definition.load(workspace.settings)
