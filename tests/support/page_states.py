"""A lake with a pipeline in each state that a person on call meets, and Airflow's database beside it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.page_server import add_run
from tests.support.page_world import STEP, PageWorld

STATES = ("ward_failed", "ward_running", "ward_waiting", "ward_paused", "ward_new", "ward_half", "ward_mistaken")
"""Pipelines of the states; ``heart_rate`` beside them is fine."""

SILVER = "recordings_enriched"
FAILED = "manual__2026-03-02T06:00:00+00:00"


def write_states(folder: Path) -> PageWorld:
    """Write the lake; the definitions of all pipelines are copies of heart_rate's."""
    began = datetime.now(UTC).replace(second=0, microsecond=0) - 5 * STEP
    world = PageWorld.at(folder / "whole", runs=0, began=began)
    for quarantined in (2, 3, 0, 9, 4):
        world.run(quarantined=quarantined)
    half = PageWorld.at(folder / "half", runs=1, began=began + 3 * STEP)
    half.run(unreadable=2)
    for name in STATES[:4]:
        _copy(world, world, name)
    _copy(half, world, "ward_half")
    _define(world, world, "ward_new", "${landing}/of_ward_new")
    mistaken = world.workspace.settings.pipelines / "ward_mistaken"
    mistaken.mkdir()
    (mistaken / "pipeline.yaml").write_text("name: ward_mistaken\nbronze:\n  parcels: {path: x, fromat: json}\n")
    return world


def _copy(source: PageWorld, world: PageWorld, name: str) -> None:
    _define(source, world, name, str(source.workspace.settings.landing))
    lake = Path(source.workspace.settings.lake)
    shutil.copytree(lake / "heart_rate", Path(world.workspace.settings.lake) / name)


def _define(source: PageWorld, world: PageWorld, name: str, landing: str) -> None:
    settings = world.workspace.settings
    to = settings.pipelines / name
    shutil.copytree(source.workspace.settings.pipelines / "heart_rate", to)
    text = (to / "pipeline.yaml").read_text().replace("name: heart_rate\n", f"name: {name}\n", 1)
    (to / "pipeline.yaml").write_text(text.replace("${landing}", landing))


def store_runs(world: PageWorld) -> None:
    """Store the runs of the states in the database of the server that is started."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    now = datetime.now(UTC)
    done = {"check_request": "success", "wait_for_files": "success", "bronze": "success"}
    for name in ("heart_rate", *STATES):
        if name in ("ward_new", "ward_mistaken"):
            continue
        for number in range(2 if name == "ward_half" else 5):
            when = world.began + (number + 3 * (name == "ward_half")) * STEP
            add_run(name, f"scheduled__{when.isoformat()}", "success", start_date=when,
                    end_date=when + timedelta(seconds=58), run_type="scheduled",
                    tasks={**done, "silver": "success", "gold": "success", "account": "success"})  # fmt: skip
    reason = "recordings_enriched: 12 of 1,500 records broke known_patient, limit 10"
    add_run("ward_failed", FAILED, "failed", start_date=now - timedelta(minutes=6), end_date=now - timedelta(minutes=4),
            triggering_user_name="anna", conf={"tables": ["recordings_enriched"], "mode": "auto"},
            tasks={**done, "silver": "failed", "gold": "upstream_failed", "account": "failed"},
            reasons={"silver": reason, "account": "silver failed"})  # fmt: skip
    add_run("ward_running", "manual__running", "running", start_date=now - timedelta(seconds=95),
            tasks={**done, "silver": "running", "gold": None, "account": None})  # fmt: skip
    add_run("ward_waiting", "scheduled__waiting", "running", start_date=now - timedelta(minutes=9),
            run_type="scheduled",
            tasks={"check_request": "success", "wait_for_files": "deferred", "bronze": None})  # fmt: skip
    with create_session() as session:
        for name in ("ward_paused", "ward_new"):
            session.get_one(DagModel, name).is_paused = True
