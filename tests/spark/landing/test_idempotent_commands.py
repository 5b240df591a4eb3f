"""``copy-into --force``, ``reload`` and ``reset``: killed anywhere and repeated, or two at once, they do it once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.jobs import copy_into
from sluicegate.jobs.layer_job import Job
from sluicegate.landing.chosen import copy as landing_copy
from sluicegate.landing.chosen import reread
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.monitor import plan
from tests.conftest import Workspace
from tests.spark.landing.test_file_status import verified
from tests.spark.test_recovery import Stopped, stop_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

POINTS = ["ledger.before_commit", "ledger.after_commit", "bronze.before_commit", "bronze.after_commit"]

# What each command makes of files 1 and 2, of which 2 changed to 20, and of 3, which is gone.
RIGHT = {
    "copied": [1, 1, 2, 20, 3],
    "reloaded": [1, 20, 3],
    "reset": [1, 20, 3],
    "dropped": [1, 20],
}


@pytest.fixture
def tables(spark: SparkSession, workspace: Workspace) -> Workspace:
    """A table for each command, in one run."""
    read = "format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 2"
    own = "".join(f"  {name}: {{path: '${{landing}}/{name}', {read}}}\n" for name in RIGHT)
    workspace.define(f"name: heart_rate\nbronze:\n{own}")
    for name in RIGHT:
        for number in (1, 2, 3):
            workspace.land(f"{name}/{number}.json", json.dumps({"id": number}), age=100 - number)
    workspace.run(spark, "bronze")
    for name in RIGHT:
        workspace.land(f"{name}/2.json", '{"id": 20}', age=50)
        (workspace.folder / f"landing/{name}/3.json").unlink()
    return workspace


def commands(spark: SparkSession, workspace: Workspace) -> dict[str, Callable[[], Any]]:
    """What the jobs of the commands do, under the lock."""

    def again(name: str, what: reread.Reload | reread.Reset) -> Callable[[], Any]:
        return lambda: Job(
            workspace.definition, workspace.lake, "bronze", {}, spark, only=name, finder=what.discover
        ).run()

    copy = landing_copy.Copy(f"{workspace.folder}/landing/copied", force=True, how=CopyOptions(merge_schema=True))
    return {
        "copied": lambda: copy_into.run(copy, workspace.definition, "copied", workspace.lake, {}, spark),
        "reloaded": again("reloaded", reread.Reload(pattern="*")),
        "reset": again("reset", reread.Reset()),
        "dropped": again("dropped", reread.Reset(drop_missing=True)),
    }


def ids(workspace: Workspace) -> dict[str, list[int]]:
    return {name: sorted((id for (id,) in workspace.rows(name, "id")), key=str) for name in RIGHT}


@pytest.mark.more
def test_killed_at_each_point_in_turn_and_repeated(
    spark: SparkSession, tables: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in commands(spark, tables).values():
        for point in POINTS:
            stop_at(monkeypatch, point)
            with pytest.raises(Stopped, match=point):
                command()
            monkeypatch.undo()
        command()
    assert ids(tables) == RIGHT
    assert plan.pending(tables.definition, tables.settings).nothing
    assert verified(tables)
    commands(spark, tables)["copied"]()  # it has ended, so this one is another
    assert ids(tables)["copied"] == [1, 1, 1, 2, 20, 20, 3]


@pytest.mark.more
def test_two_at_once_without_the_lock(spark: SparkSession, tables: Workspace) -> None:
    """The ledger gives them an order, and the marks keep it. Of the two copies either counts as a try of the other."""
    refused: list[str] = []

    def guarded(command: Callable[[], Any]) -> None:
        try:
            command()
        except Exception as error:
            refused.append(str(error))

    both = [*commands(spark, tables).values()] * 2
    threads = [threading.Thread(target=guarded, args=(command,)) for command in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("CONCURRENT" in reason.upper() for reason in refused), refused
    for command in list(commands(spark, tables).values())[1:]:
        command()
    tables.run(spark, "bronze")
    found = ids(tables)
    assert found.pop("copied") in ([1, 1, 2, 20, 3], [1, 1, 1, 2, 20, 20, 3])
    assert found == {name: right for name, right in RIGHT.items() if name != "copied"}
    assert verified(tables)
