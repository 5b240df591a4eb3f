"""What is said of an Airflow that does not get ready. No Airflow is started: nobody answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.errors import SluicegateError
from sluicegate.settings import Settings
from sluicegate.tools.demo.local_airflow import LOG_PORT, LocalAirflow, _free_port

pytestmark = pytest.mark.unit


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalAirflow:
    """An Airflow whose API server does not answer, with something in its log."""
    monkeypatch.setattr("sluicegate.tools.demo.local_airflow.STARTS_WITHIN", 0.0)
    silent = LocalAirflow(tmp_path, Settings.of(), lasting=False)
    silent.url = f"http://127.0.0.1:{_free_port(0)}"
    silent._credentials = {}
    silent.log.write_text("INFO - all is well\n")
    return silent


def test_what_is_not_ready_in_time_is_named_and_no_line_of_the_log_is_its_cause(airflow: LocalAirflow) -> None:
    with pytest.raises(SluicegateError) as late:
        airflow.wait("heart_rate")
    said = late.value.for_people()
    assert "Airflow was not ready within 0 s: its api-server does not" in said
    assert f"if this machine is busy, try again; its log is {airflow.log}" in said
    assert "all is well" not in said


def test_of_a_part_that_ended_the_last_lines_of_the_log_are_said(airflow: LocalAirflow) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    ended.wait()
    airflow._processes["scheduler"] = ended
    with pytest.raises(SluicegateError, match="its scheduler ended with exit code 3") as failed:
        airflow.wait("heart_rate")
    assert "all is well" in failed.value.for_people()


def test_the_log_of_a_task_is_asked_for_on_this_machine_alone(airflow: LocalAirflow) -> None:
    """Where a task runs or waits, Airflow's server asks its host; without an answer the log begins with an error."""
    program = (
        "from airflow.configuration import conf; from airflow.utils.net import get_hostname\n"
        "ports = [conf.get('logging', f'{kind}_log_server_port') for kind in ('worker', 'trigger')]\n"
        "print(get_hostname(), *ports)"
    )
    env = airflow._settings_of_airflow(8080)
    done = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True)
    host, *ports = done.stdout.split()[-3:]
    assert host == "127.0.0.1"
    assert ports == [env[LOG_PORT]] * 2
    assert env[LOG_PORT].isdecimal()
