"""A continuous run as people start it: files land meanwhile, it is seen, stopped, and killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluicegate.monitor import streams
from tests.conftest import ROOT, Workspace, beat
from tests.spark.test_medallion import assert_right

pytestmark = [pytest.mark.e2e, pytest.mark.more]


def start(workspace: Workspace, *arguments: str) -> subprocess.Popen[str]:
    """`sluicegate run --continuous`, in a process group of its own so that no signal reaches these tests."""
    places = [part for name in ("lake", "landing", "pipelines")
              for part in (f"--{name}", str(getattr(workspace.settings, name)))]  # fmt: skip
    command = [sys.executable, "-m", "sluicegate.cli", "run", "heart_rate", "--continuous", "--every", "1s"]
    env = os.environ | {"SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([*command, *places, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, start_new_session=True)  # fmt: skip


def until(run: subprocess.Popen[str], what: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        if run.poll() is not None or time.monotonic() > end:
            run.kill()
            raise AssertionError(f"it did not happen:\n{run.communicate()[0]}")
        time.sleep(0.1)


def seen(workspace: Workspace) -> streams.Stream | None:
    return next(iter(streams.list_streams(workspace.settings.lake)), None)


def batches(workspace: Workspace) -> int:
    stream = seen(workspace)
    return stream.batches if stream else 0


def metrics(port: int) -> dict[tuple[str, str], float]:
    """Metrics of a run by name and table, as Prometheus reads them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {(one.name, one.labels.get("table", "")): one.value for family in families for one in family.samples}


def interrupt(run: subprocess.Popen[str], workspace: Workspace) -> str:
    """Ctrl-C twice, while a batch is being written: the second one ends it at once, by SIGKILL to the whole job."""
    run.send_signal(signal.SIGINT)
    until(run, lambda: (stream := seen(workspace)) and stream.state == "stopping")
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert "stopping after the current batch" in said
    assert seen(workspace) is None
    return said


def test_killed_in_a_batch_then_fed_while_it_runs_then_stopped_by_name(heartbeats: Workspace) -> None:
    killed = start(heartbeats)
    until(killed, lambda: Path(heartbeats.uri("recordings_bronze"), "_delta_log").exists())
    interrupt(killed, heartbeats)
    assert not Path(heartbeats.uri("daily_patient_avg"), "_delta_log").exists(), "it was killed too late to tell"

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    run = start(heartbeats, "--json", "--metrics-port", str(port))
    until(run, lambda: batches(heartbeats) == 1)
    assert_right(heartbeats)
    heartbeats.land("recordings/later.json", [beat(2, 2, 5_000, 66.0)])
    until(run, lambda: batches(heartbeats) == 2)
    until(run, lambda: metrics(port)["sluicegate_batches_total", ""] == 2)
    bronze = len(heartbeats.rows("recordings_bronze", "_pos"))
    assert metrics(port)["sluicegate_rows_read_total", "recordings_bronze"] == bronze
    assert metrics(port)["sluicegate_table_rows", "recordings_bronze"] == bronze
    stream = seen(heartbeats)
    assert stream is not None
    assert (stream.state, stream.pipeline, stream.every, stream.failures) == ("running", "heart_rate", "1s", 0)
    listed = [sys.executable, "-m", "sluicegate.cli", "streams", "--lake", heartbeats.settings.lake]
    stop = subprocess.run([*listed, "--stop", stream.id], capture_output=True, text=True, check=True)
    assert "stops after its current batch" in stop.stdout
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 0, said
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [one["batch"] for one in told] == [1, 2]
    assert [layer["layer"] for layer in told[1]["layers"]] == ["bronze", "silver", "gold"]
    assert "stopped: 2 batches" in said
    assert seen(heartbeats) is None
    assert_right(heartbeats)
