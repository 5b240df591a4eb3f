"""A rename: what is refused, what is on record, and the one line of the definition that changes."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate import _faults, api
from sluicegate.definition import load, yaml
from sluicegate.errors import (
    LakeLocked,
    LakeUnsupported,
    PipelineMissing,
    PipelineRenamed,
    RenameRefused,
    SluicegateError,
    TargetConflict,
)
from sluicegate.jobs.base import hold_write_lock
from sluicegate.lake.exclusion import lock, renamed
from sluicegate.lake.exclusion.lock import pipeline_lock, turn
from sluicegate.lake.exclusion.target_ownership import take_ownership
from sluicegate.lake.layout import Lake
from sluicegate.maintenance.rename import Renamed, rename
from sluicegate.monitor.streams import Registration, Stream
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

POINTS = [point for point in _faults.POINTS if point.startswith("rename.")]


def define(settings: Settings, name: str, more: str = "", path: str = "${landing}/orders", form: str = "json") -> None:
    folder = settings.pipelines / name
    folder.mkdir(parents=True)
    bronze = f"bronze:\n  {name}_bronze:\n    path: {path}\n    format: {form}\n"
    (folder / "pipeline.yaml").write_text(f"# of shops\nname: {name}  # as its folder\n{more}{bronze}")


def fill(settings: Settings, name: str) -> Path:
    """Makes a file where the tables of a pipeline lie."""
    file = Path(settings.lake) / name / "bronze" / "orders" / "part"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


@pytest.fixture
def at(tmp_path: Path) -> Settings:
    """A pipeline ``shop`` with a definition and a folder in the lake."""
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines", "local[1]")
    define(settings, "shop")
    fill(settings, "shop")
    return settings


def lake(settings: Settings, name: str) -> Lake:
    return Lake(settings.lake, name)


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def point(here: str) -> None:
        if here == name:
            raise KeyboardInterrupt

    monkeypatch.setattr(_faults, "point", point)


def test_folder_name_and_tables_get_the_name(at: Settings) -> None:
    assert rename("shop", "store", at) == Renamed(lake=True, definition=True)
    assert load("store", at).name == "store"
    text = (at.pipelines / "store" / "pipeline.yaml").read_text()
    assert text.startswith("# of shops\nname: store  # as its folder\nbronze:")
    assert (Path(at.lake) / "store" / "bronze" / "orders" / "part").exists()
    assert not (at.pipelines / "shop").exists()
    assert not (Path(at.lake) / "shop").exists()
    # Once more, there is nothing to do; and back, which the record of the former name does not hinder.
    assert rename("shop", "store", at) == Renamed()
    assert rename("store", "shop", at) == Renamed(lake=True, definition=True)
    with pipeline_lock(lake(at, "shop"), "a run"):
        pass


def test_a_pipeline_that_never_ran_is_renamed(at: Settings) -> None:
    define(at, "fresh")
    assert rename("fresh", "new", at) == Renamed(lake=False, definition=True)
    with pipeline_lock(lake(at, "new"), "a run"):
        pass


@pytest.mark.parametrize("point", POINTS)
def test_a_stop_leaves_what_the_same_command_completes(
    at: Settings, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    define(at, "other")
    with monkeypatch.context() as patched:
        stop_at(patched, point)
        with pytest.raises(KeyboardInterrupt):
            rename("shop", "store", at)
    for name in ("shop", "store"):  # no run of either name begins, nor is another rename begun with one
        with (
            pytest.raises(PipelineRenamed, match="is not complete") as caught,
            pipeline_lock(lake(at, name), "a run"),
        ):
            pytest.fail("it came in")
        assert caught.value.hint.startswith("sluicegate rename shop store")
        with pytest.raises(PipelineRenamed, match="is not complete"):  # though nothing has landed
            api.run(api.load(name, at))
        with pytest.raises(RenameRefused, match=r"shop to store is not complete|has the name shop"):
            rename("other", name, at) if not (at.pipelines / name).exists() else rename(name, "third", at)
    rename("shop", "store", at)
    assert load("store", at).name == "store"
    assert {one.name for one in at.pipelines.iterdir()} == {"other", "store"}
    assert (Path(at.lake) / "store" / "bronze" / "orders" / "part").exists()
    with hold_write_lock(lake(at, "store"), "a run", target=""):
        pass


def test_what_comes_under_the_former_name_after_a_stop_costs_no_table(
    at: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server writes the file that it was sent last when the tables have moved, or somebody copies a table there."""
    with monkeypatch.context() as patched:
        stop_at(patched, "rename.tables_moved")
        with pytest.raises(KeyboardInterrupt):
            rename("shop", "store", at)
    late = fill(at, "shop")
    with pytest.raises(RenameRefused, match="tables under both names, shop and store") as caught:
        rename("shop", "store", at)
    assert caught.value.exit_code == 2
    assert (Path(at.lake) / "store" / "bronze" / "orders" / "part").exists()
    assert late.exists()
    shutil.rmtree(late.parents[2])
    assert rename("shop", "store", at) == Renamed(definition=True)
    assert (Path(at.lake) / "store" / "bronze" / "orders" / "part").exists()


def test_tables_that_come_under_the_new_name_meanwhile_are_not_replaced(
    at: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def point(here: str) -> None:
        if here == "rename.recorded":
            fill(at, "store")

    with monkeypatch.context() as patched:
        patched.setattr(_faults, "point", point)
        with pytest.raises(RenameRefused, match="tables under both names"):
            rename("shop", "store", at)
    for name in ("shop", "store"):
        assert (Path(at.lake) / name / "bronze" / "orders" / "part").exists()


def test_it_waits_for_nobody_under_the_new_name(at: Settings) -> None:
    """The definition may have the name already, and be run."""
    with pipeline_lock(lake(at, "store"), "a run"), pytest.raises(LakeLocked, match="store is being written by a run"):
        rename("shop", "store", at)
    with turn(lake(at, "store"), "a task"), pytest.raises(LakeLocked, match="store is being written by a task"):
        rename("shop", "store", at)
    with (
        Registration(lake(at, "store"), Stream("store", "00c0ffee", "5 s")),
        pytest.raises(LakeLocked, match="a continuous run is active on pipeline store: 00c0ffee"),
    ):
        rename("shop", "store", at)
    assert renamed.recorded_rename(at.lake, "shop") is None
    assert rename("shop", "store", at) == Renamed(lake=True, definition=True)


def test_runs_of_the_former_name_are_kept_out(at: Settings) -> None:
    rename("shop", "store", at)
    with (
        pytest.raises(PipelineRenamed, match="pipeline shop was renamed to store") as caught,
        hold_write_lock(lake(at, "shop"), "a run", target=""),
    ):
        pytest.fail("it came in")
    assert (caught.value.code, caught.value.exit_code) == ("SG221", 2)
    with pytest.raises(PipelineRenamed, match="pipeline shop was renamed to store"):
        api.load("shop", at)
    # A new pipeline of that name is let in by hand, as the message says.
    Path(str(caught.value.where.file)).unlink()
    with hold_write_lock(lake(at, "shop"), "a run", target=""):
        pass


def test_a_run_that_waited_for_the_lock_is_kept_out(at: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It found no rename on record before it waited."""
    shop, calls = lake(at, "shop"), []
    real = renamed.demand_current

    def look(where: Lake) -> None:
        calls.append(where)
        if len(calls) == 1:  # it looks, and waits; meanwhile the rename begins and ends
            rename("shop", "store", at)
        else:
            real(where)

    monkeypatch.setattr(renamed, "demand_current", look)
    with pytest.raises(PipelineRenamed, match="renamed to store"), pipeline_lock(shop, "a run"):
        pytest.fail("it came in")


def while_waiting(monkeypatch: pytest.MonkeyPatch, wanted: Lake, then: Callable[[], object]) -> list[SluicegateError]:
    """Waits for the lock of a pipeline while a rename holds it, and does something with it; gives what hindered it."""
    waits, found, real = threading.Event(), list[SluicegateError](), renamed.record_rename

    def run() -> None:
        try:
            with pipeline_lock(wanted, "a run", wait=60):
                then()
        except SluicegateError as error:
            found.append(error)

    thread = threading.Thread(target=run)

    def begun(*names: str) -> None:
        thread.start()  # it finds no rename on record yet
        assert waits.wait(60)
        real(*names)

    with monkeypatch.context() as patched:
        patched.setattr(renamed, "record_rename", begun)
        patched.setattr(lock, "say", lambda _: waits.set())
        patched.setattr(lock, "POLL_SECONDS", 0.01)
        rename("shop", "store", Settings.of(wanted.root, pipelines=Path(wanted.root).parent / "pipelines"))
        thread.join(60)
    return found


def test_a_run_that_waits_at_the_moved_file_learns_of_the_rename(at: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    found = while_waiting(monkeypatch, lake(at, "shop"), lambda: pytest.fail("it came in"))
    assert [type(error) for error in found] == [PipelineRenamed]
    assert not (Path(at.lake) / "shop").exists()


def test_a_run_of_the_new_name_waits_for_the_lock_that_comes_with_the_tables(
    at: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    came_in = []

    def look() -> None:
        with (
            pytest.raises(LakeLocked, match="written by a run"),
            pipeline_lock(lake(at, "store"), "another", wait=0),
        ):
            pytest.fail("it came in")
        came_in.append((Path(at.lake) / "store" / "bronze" / "orders" / "part").exists())

    assert while_waiting(monkeypatch, lake(at, "store"), look) == []
    assert came_in == [True]


def test_it_waits_for_nobody(at: Settings) -> None:
    with pipeline_lock(lake(at, "shop"), "a run"), pytest.raises(LakeLocked, match="a run"):
        rename("shop", "store", at)
    with turn(lake(at, "shop"), "a task"), pytest.raises(LakeLocked, match="a task"):
        rename("shop", "store", at)
    with (
        Registration(lake(at, "shop"), Stream("shop", "00c0ffee", "5 s")),
        pytest.raises(LakeLocked, match="a continuous run is active on pipeline shop: 00c0ffee"),
    ):
        rename("shop", "store", at)
    with pipeline_lock(Lake(at.lake, renamed.FOLDER), "another rename"), pytest.raises(LakeLocked, match="another"):
        rename("shop", "store", at)
    assert load("shop", at).name == "shop"
    assert renamed.recorded_rename(at.lake, "shop") is None


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("shop", RenameRefused, "is already called shop"),
        ("Shop", RenameRefused, "Shop"),
        ("../shop", RenameRefused, "name"),
        ("taken", RenameRefused, "pipeline taken already exists"),
        ("left", RenameRefused, "the lake already has tables of a pipeline left"),
        ("taken_verify", RenameRefused, "a DAG of the same name: taken_verify"),
        ("taken_alerts", RenameRefused, "a DAG of the same name: taken_alerts"),
        ("dag", RenameRefused, "a DAG of the same name: dag_maintenance"),
    ],
)
def test_a_name_that_cannot_be_had_is_refused(
    at: Settings, name: str, kind: type[SluicegateError], message: str
) -> None:
    define(at, "taken")
    define(at, "dag_maintenance")
    fill(at, "left")
    with pytest.raises(kind, match=message) as caught:
        rename("shop", name, at)
    assert caught.value.exit_code == 2
    assert load("shop", at).name == "shop"
    assert renamed.recorded_rename(at.lake, "shop") is None


def test_a_folder_without_a_definition_is_in_the_way_before_anything_is_done(at: Settings) -> None:
    cache = at.pipelines / "store" / "__pycache__"
    cache.mkdir(parents=True)
    with pytest.raises(RenameRefused, match="has no definition") as caught:
        rename("shop", "store", at)
    assert (caught.value.exit_code, str(caught.value.where.file)) == (2, str(at.pipelines / "store"))
    assert renamed.recorded_rename(at.lake, "shop") is None
    cache.rmdir()
    assert rename("shop", "store", at) == Renamed(lake=True, definition=True)


def test_what_is_left_of_the_former_folder_is_in_nobodys_way(at: Settings) -> None:
    """The definition was deployed with its new name, and Python's files are where it was."""
    define(at, "store")
    (at.pipelines / "shop" / "pipeline.yaml").unlink()
    assert rename("shop", "store", at) == Renamed(lake=True)


def test_a_definition_that_cannot_be_moved_is_reported(at: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        stop_at(patched, "rename.tables_moved")
        with pytest.raises(KeyboardInterrupt):
            rename("shop", "store", at)
    cache = at.pipelines / "store" / "__pycache__"
    cache.mkdir(parents=True)
    with pytest.raises(SluicegateError, match="cannot rename the definition of shop to store") as caught:
        rename("shop", "store", at)
    assert "not empty" in caught.value.cause
    cache.rmdir()
    assert rename("shop", "store", at) == Renamed(definition=True)


def test_a_pipeline_that_is_not_there_is_missing(at: Settings) -> None:
    with pytest.raises(PipelineMissing, match="no pipeline none"):
        rename("none", "store", at)
    with pytest.raises(PipelineMissing, match="no pipeline none"):
        rename("none", "shop", Settings.of(f"{at.lake}2", at.landing, at.pipelines))


def test_a_lake_on_an_object_store_is_refused(at: Settings) -> None:
    with pytest.raises(LakeUnsupported, match="cannot move a folder"):
        rename("shop", "store", Settings.of("s3://bucket/lake", at.landing, at.pipelines))
    assert load("shop", at).name == "shop"


def test_a_definition_that_cannot_be_written_is_left_to_whoever_deploys_it(
    at: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(RenameRefused, match="no permission to write the definition"):
        rename("shop", "store", at)
    assert rename("shop", "store", at, tables_only=True) == Renamed(lake=True)
    assert load("shop", at).name == "shop"
    with pytest.raises(PipelineRenamed), pipeline_lock(lake(at, "shop"), "a run"):
        pytest.fail("it came in")
    monkeypatch.undo()
    assert rename("shop", "store", at) == Renamed(definition=True)


def test_each_target_has_tables_of_its_own(at: Settings, tmp_path: Path) -> None:
    targets = "".join(f"  {name}: {{lake: {tmp_path / name}}}\n" for name in ("dev", "prod"))
    define(at, "till", f"targets:\n{targets}")
    settings = {name: Settings.of(None, at.landing, at.pipelines, target=name) for name in ("dev", "prod")}
    for name in settings:
        fill(Settings.of(str(tmp_path / name)), "till")
        take_ownership(Lake(str(tmp_path / name), "till"), name)
    done = rename("till", "desk", settings["dev"])
    assert (done.lake, done.definition) == (True, True)
    assert done.remarks == [
        "the tables of the target prod must be renamed by"
        " sluicegate rename till desk --target prod, before its next run"
    ]
    assert rename("till", "desk", settings["prod"]).lake
    assert (tmp_path / "prod" / "desk" / "_target").read_text() == "prod\n"
    claim_of_other = Settings.of(str(tmp_path / "prod"), at.landing, at.pipelines, target="dev")
    with pytest.raises(TargetConflict):
        rename("desk", "till", claim_of_other)


def test_those_who_read_its_tables_are_named(at: Settings) -> None:
    define(at, "reader", path="${lake}/shop/bronze/orders", form="delta")
    define(at, "broken", more="nothing: known\n")
    assert rename("shop", "store", at).remarks == [
        f"reader.reader_bronze reads {at.lake}/shop/bronze/orders: change its path to {at.lake}/store/bronze/orders"
    ]


def test_a_folder_that_cannot_be_moved_is_reported(at: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    with monkeypatch.context() as patched:
        patched.setattr("os.rename", refuse)
        with pytest.raises(SluicegateError, match="cannot move the folder") as caught:
            rename("shop", "store", at)
    assert caught.value.cause == "not here"
    assert rename("shop", "store", at) == Renamed(lake=True, definition=True)


def test_former_names_are_known_in_their_order(at: Settings) -> None:
    rename("shop", "store", at)
    rename("store", "market", at)
    assert renamed.former_names(at.lake, "market") == ["store", "shop"]
    assert renamed.former_names(at.lake, "shop") == []
    assert json.loads((Path(at.lake) / "_renames" / "shop.json").read_text())["done"]
    rename("market", "shop", at)
    assert renamed.former_names(at.lake, "shop") == ["market", "store"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: shop", "name: store"),
        ("a: {name: x}\nname:   'shop' # here\nb: 1\n", "a: {name: x}\nname:   store # here\nb: 1\n"),
        ("\ufeff# ü\r\nname: shop\r\n", "\ufeff# ü\r\nname: store\r\n"),
    ],
)
def test_only_the_value_of_a_field_changes(text: str, expected: str) -> None:
    assert yaml.replace_value(text, "name", "store") == expected
    with pytest.raises(KeyError):
        yaml.replace_value(text, "none", "store")
