"""Continuous runs without Spark: their clock, how they are seen and stopped, and what ends them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest
from typer.testing import CliRunner

from sluicegate import processes
from sluicegate.cli import app
from sluicegate.errors import DefinitionError, LandingMissing, SluicegateError, UserError
from sluicegate.jobs import continuous
from sluicegate.jobs.continuous import Continuous
from sluicegate.lake.exclusion import lock
from sluicegate.lake.layout import Lake
from sluicegate.launch.continuous import interval, next_tick
from sluicegate.monitor import streams
from sluicegate.monitor.streams import Registration, Stream
from sluicegate.storage import durable
from sluicegate.times import time_span
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4s", 4), ("2 minutes", 120), ("1 hour 30 minutes", 5400), ("interval 10 seconds", 10), ("500ms", 0.5),
        ("1.5 seconds", 1.5), (" 1  DAY ", 86400), ("2w", 1209600), ("1h30m", 5400),
    ],
)  # fmt: skip
def test_a_time_span_is_a_sum_of_numbers_with_units(text: str, seconds: float) -> None:
    assert time_span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "interval", "4", "s", "-4s", "4 fortnights", "1 month", "1 year", "1.5 minutes", "4s 5", "4s; rm"],
)
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        time_span(text)
    with pytest.raises(UserError, match="--every"):
        interval(text)


def test_an_interval_that_nobody_can_keep_is_refused() -> None:
    with pytest.raises(UserError, match="too short"):
        interval("0 seconds")


def test_ticks_are_multiples_of_the_interval_and_missed_ones_are_not_made_up_for() -> None:
    assert next_tick(1_000.0, 4) == 1_004
    assert next_tick(1_003.9, 4) == 1_004
    assert next_tick(1_005.0, 4) == 1_008
    # A batch of the tick at 1,000 that ends at 1,013 is followed at once; then the clock counts again.
    assert next_tick(1_013.0, 4) == 1_016


@pytest.fixture
def at(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"), "heart_rate")


def wait_for(what: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_a_run_is_seen_while_it_lives_and_not_after(at: Lake) -> None:
    stream = Stream("heart_rate", streams.new_id(), "4s")
    with Registration(at, stream) as known:
        known.update_facts(batches=3, rows=4_000)
        (seen,) = streams.list_streams(at.root)
        assert (seen.id, seen.state, seen.batches, seen.rows, seen.pid) == (stream.id, "running", 3, 4_000, os.getpid())
        assert streams.list_streams(at.root, "heart_rate") == [seen]
        assert streams.list_streams(at.root, "other") == []
        assert not known.is_stop_requested()
        assert streams.stop(at.root, seen) == "stops after its current batch"
        assert known.is_stop_requested()
        assert [one.state for one in streams.list_streams(at.root)] == ["stopping"]
    assert streams.list_streams(at.root) == []
    assert list(Path(at.streams).iterdir()) == []


def test_a_run_gives_signs_of_life_while_a_batch_takes_long(at: Lake) -> None:
    stream = Stream("heart_rate", streams.new_id(), "4s", beat="2024-01-01T00:00:00+00:00")
    file = Path(at.streams, f"{stream.id}.json")
    with Registration(at, stream, beat=0.05):
        written = file.stat().st_mtime_ns
        wait_for(lambda: file.stat().st_mtime_ns > written)
        assert not streams.list_streams(at.root)[0].is_dead


def test_a_run_whose_file_is_taken_away_stops_and_does_not_write_it_again(at: Lake) -> None:
    stream = Stream("heart_rate", streams.new_id(), "4s")
    with Registration(at, stream, beat=0.05) as known:
        streams.forget(at, stream.id)
        assert known.is_stop_requested()
        known.update_facts(batches=1)
        time.sleep(0.2)
        assert streams.list_streams(at.root) == []


def left_behind(at: Lake, **facts: object) -> Stream:
    """The file of a run that was killed: a process that is no more."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    usual = {
        "pipeline": "heart_rate",
        "id": streams.new_id(),
        "every": "4s",
        "pid": gone.pid,
        "world": processes.process_namespace(),
    }
    stream = Stream(**{**usual, **facts})  # type: ignore[arg-type]
    durable.write(f"{at.streams}/{stream.id}.json", json.dumps(vars(stream)))
    return stream


def test_a_dead_run_is_shown_as_such_and_cleared_by_stopping_it(at: Lake) -> None:
    long_ago = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    killed, elsewhere = left_behind(at), left_behind(at, host="another", pid=1, beat=long_ago)
    alive = left_behind(at, world="another machine's start/1", pid=2**22 + 1)  # which may have the same name
    seen = {one.id: one.state for one in streams.list_streams(at.root)}
    assert seen == {killed.id: "no sign of life", elsewhere.id: "no sign of life", alive.id: "running"}
    assert "removed" in streams.stop(at.root, streams.find_stream(at.root, None, killed.id))
    assert killed.id not in {one.id for one in streams.list_streams(at.root)}
    streams.stop(at.root, streams.find_stream(at.root, None, alive.id))
    assert Path(at.streams, f"{alive.id}.stop").exists()


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_run_elsewhere_is_dead_after_SILENCE(at: Lake, monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    beat = now - streams.SILENCE - beyond * timedelta(microseconds=1)
    stream = left_behind(at, world="another machine's start/1", beat=beat.isoformat())

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(now.timestamp(), tz)

    monkeypatch.setattr(streams, "datetime", Clock)
    (seen,) = streams.list_streams(at.root)
    assert (seen.is_dead, seen.state) == (beyond > 0, "no sign of life" if beyond > 0 else "running")
    assert ("removed" in streams.stop(at.root, seen)) == (beyond > 0)
    assert Path(at.streams, f"{stream.id}.stop").exists() == (beyond <= 0)
    assert streams.SILENCE.total_seconds() > streams.BEAT * 3, "one sign that comes late, or not at all, ends nothing"


def test_what_stands_in_a_file_cannot_lead_elsewhere(at: Lake) -> None:
    stream = left_behind(at)
    file = Path(at.streams, f"{stream.id}.json")
    file.write_text(json.dumps({**vars(stream), "id": "../../x", "pipeline": "../other"}))
    Path(at.streams, "..%2fx.json").write_text("{}")
    (seen,) = streams.list_streams(at.root)
    assert (seen.id, seen.pipeline) == (stream.id, "heart_rate")
    file.write_text("mine")
    with pytest.raises(UserError, match="a continuous run"):
        streams.list_streams(at.root)


def command(*arguments: str) -> tuple[int, str]:
    """Runs a command in this process; its exit code, and what it said or how it failed."""
    done = CliRunner().invoke(app.app, list(arguments))
    if isinstance(done.exception, SluicegateError):
        return done.exception.exit_code, done.exception.for_people()
    return done.exit_code, done.output


def test_the_command_lists_and_stops(at: Lake) -> None:
    killed = left_behind(at, batches=7)
    code, shown = command("streams", "--lake", at.root, "--json")
    assert (code, json.loads(shown)[0]["batches"]) == (0, 7)
    code, shown = command("streams", "heart_rate", "--lake", at.root)
    assert (code, killed.id in shown, "no sign of life since" in shown, "1 continuous run" in shown) == (
        0, True, True, True,
    )  # fmt: skip
    code, said = command("streams", "--lake", at.root, "--stop", "../../x")
    assert (code, "continuous run ../../x" in said, killed.id in said) == (2, True, True)
    assert command("streams", "../x", "--lake", at.root)[0] == 2
    assert command("streams", "--stop-all", "--stop", killed.id, "--lake", at.root)[0] == 2
    code, said = command("streams", "--stop-all", "--lake", at.root)
    assert (code, f"heart_rate {killed.id} gave no sign of life" in said) == (0, True)
    assert "no continuous runs" in command("streams", "--stop-all", "--lake", at.root)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--continuous", "--every", "soon"], "--every"),
        (["--every", "4s"], "--continuous"),
        (["--continuous", "--every", "4s", "--from", "2024-03-01", "--to", "2024-03-02"], "an interval"),
        (["--continuous", "--every", "4s", "--full-refresh", "beats"], "or a full refresh"),
        (["--continuous", "--every", "4s", "--layer", "platinum"], "layer platinum"),
    ],
)
def test_a_mistake_in_the_command_starts_nothing(workspace: Workspace, arguments: list[str], said: str) -> None:
    places = [part for name in ("lake", "landing", "pipelines")
              for part in (f"--{name}", str(getattr(workspace.settings, name)))]  # fmt: skip
    code, told = command("run", "heart_rate", *places, *arguments)
    assert (code, said in told) == (2, True), told


def looping(workspace: Workspace, known: Registration, stream: Stream) -> Continuous:
    return Continuous(workspace.settings, workspace.lake, stream, {}, known)


def test_a_run_with_nothing_to_do_says_nothing_and_stops_when_it_is_asked(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Stream("heart_rate", streams.new_id(), "100ms")
    with Registration(workspace.lake, stream) as known:
        loop = looping(workspace, known, stream)
        threading.Timer(0.5, streams.stop, [workspace.lake.root, stream]).start()
        done = loop.run(0.1)
    assert done.notes[0].startswith("stopped: 0 batches, 0 rows")
    assert capsys.readouterr().out.splitlines()[1:] == done.notes
    assert loop._spark is None


def test_a_busy_pipeline_is_left_alone_and_told_once(heartbeats: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    stream = Stream("heart_rate", streams.new_id(), "1s")
    with Registration(heartbeats.lake, stream) as known, lock.pipeline_lock(heartbeats.lake, "a scheduled run"):
        loop = looping(heartbeats, known, stream)
        loop.tick()
        loop.tick()
    said = capsys.readouterr().out
    assert said.count("tick skipped") == 1
    assert "a scheduled run" in said
    assert (loop.failures, loop.batches, loop._spark) == (0, 0, None)


def test_a_definition_that_is_being_edited_may_be_wrong_for_two_ticks(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Stream("heart_rate", streams.new_id(), "1s")
    with Registration(workspace.lake, stream) as known:
        loop = looping(workspace, known, stream)
        loop.tick()
        workspace.edit("pipeline.yaml", "format: csv", "format: cvs")
        loop.tick()
        loop.tick()
        assert streams.list_streams(workspace.lake.root)[0].failures == 2
        workspace.edit("pipeline.yaml", "format: cvs", "format: csv")
        loop.tick()
        assert (loop.failures, streams.list_streams(workspace.lake.root)[0].failures) == (0, 0)
        workspace.edit("pipeline.yaml", "format: csv", "format: cvs")
        loop.tick()
        loop.tick()
        with pytest.raises(DefinitionError, match="cvs"):
            loop.tick()
    said = capsys.readouterr().out
    assert said.count("retrying at the next tick") == 4
    assert said.count("the definition changed") == 1


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_run_ends_by_as_many_FAILURES_in_a_row(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    """Two ticks fail, and a third one; another tick between them makes the count begin again."""
    monkeypatch.setattr(continuous, "FAILURES", 3 - beyond)
    stream = Stream("heart_rate", streams.new_id(), "1s")
    with Registration(workspace.lake, stream) as known:
        loop = looping(workspace, known, stream)
        for _ in range(2):
            workspace.edit("pipeline.yaml", "format: csv", "format: cvs")
            for _ in range(2 - beyond):
                loop.tick()
            assert (loop.failures, streams.list_streams(workspace.lake.root)[0].failures) == (2 - beyond, 2 - beyond)
            workspace.edit("pipeline.yaml", "format: cvs", "format: csv")
            loop.tick()
            assert (loop.failures, streams.list_streams(workspace.lake.root)[0].failures) == (0, 0)
        workspace.edit("pipeline.yaml", "format: csv", "format: cvs")
        for _ in range(2 - beyond):
            loop.tick()
        with pytest.raises(DefinitionError, match="cvs"):
            loop.tick()


def test_a_mistake_of_the_users_ends_it_at_once(workspace: Workspace) -> None:
    (workspace.folder / "landing" / "patients").rmdir()
    stream = Stream("heart_rate", streams.new_id(), "1s")
    with Registration(workspace.lake, stream) as known, pytest.raises(LandingMissing):
        looping(workspace, known, stream).tick()


def test_the_job_refuses_an_id_that_is_none(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    code = continuous.main(["--pipeline", "heart_rate", "--every", "4s", "--id", "../x"])
    assert code == 2
    assert "eight hexadecimal digits" in capsys.readouterr().err
