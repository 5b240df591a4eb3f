"""A command and the job that it runs end together, however they are told to; what a job's lines say to the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from sluicegate import channel, processes
from sluicegate.errors import ExpectationFailed, JobFailed
from sluicegate.flow.report import ERROR, REPORT, UNREPORTED, RunReport
from sluicegate.flow.table_report import TableReport
from sluicegate.launch import submit as run_submit
from sluicegate.settings import Settings
from sluicegate.spark import spark_submit
from tests.conftest import ROOT
from tests.support.channel import sent, sent_as_it_is

pytestmark = pytest.mark.unit

# What `sluicegate run` does, with a job that says its number and then goes on.
COMMAND = """
    import signal
    from sluicegate import processes
    from sluicegate.launch import submit as run_submit
    from sluicegate.spark import spark_submit
    from sluicegate.settings import Settings

    # The tests may run in a shell's background or under nohup, where these are ignored, and a command leaves them so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    processes.GRACE = {grace}
    spark_submit.submit_command = lambda *_: ["bash", "-c", {job!r}]
    spark_submit.submit_env = lambda *_: {{}}
    run_submit.submit("bronze", "p", Settings.of(), {{}}, lambda line: print(line, flush=True))
"""

GOES_ON = "echo $$; sleep 600; true"  # two processes
IGNORES = "trap '' TERM HUP INT; echo $$; sleep 600"


def started(job: str, grace: float = 60.0) -> tuple[subprocess.Popen[str], int]:
    """A command, and the number of its job's process group."""
    code = textwrap.dedent(COMMAND.format(job=job, grace=grace))
    command = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout is not None
    return command, int(command.stdout.readline())


def living(group: int) -> list[psutil.Process]:
    """The processes of a group, but for those that are over and wait for somebody to take note of it."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(one.pid) == group and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -2)])
def test_what_ends_the_command_ends_its_job_first(number: signal.Signals, code: int) -> None:
    command, job = started(GOES_ON)
    command.send_signal(number)
    _, said = command.communicate()
    assert command.returncode == code
    assert f"stopped by {number.name}: the job has ended" in said
    assert not living(job)


def test_a_job_that_does_not_end_by_itself_is_killed() -> None:
    command, job = started(IGNORES, grace=0.1)
    command.send_signal(signal.SIGTERM)
    assert command.wait() == 143
    assert not living(job)


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As ``nohup`` has it."""
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job = subprocess.Popen(["sleep", "600"], start_new_session=True, text=True)
    try:
        with processes.end_job_on_error(job):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
            assert job.poll() is None
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, former)
        job.kill()
        job.wait()


@pytest.mark.parametrize("seconds", ["0.3", "600"], ids=["ends by itself", "is killed"])
def test_what_a_leader_of_a_group_leaves_behind_is_waited_for(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.5)
    leader = subprocess.Popen(["sh", "-c", f"sleep {seconds} &"], start_new_session=True)
    leader.wait()
    left = living(leader.pid)
    assert left
    processes.wait_for_group(leader.pid)
    psutil.wait_procs(left, 10)  # SIGKILL takes its moment
    assert not living(leader.pid)


def test_a_job_ends_whose_command_was_killed() -> None:
    code = "from sluicegate import processes; processes.end_with_parent(); print(1); threading.Event().wait()"
    command, _ = started(f"exec {sys.executable} -uc 'import threading; {code}'")
    command.kill()
    assert command.stdout is not None
    assert command.stdout.read() == ""  # it ends when nobody has it open any more: neither command nor job


def test_a_process_is_gone_only_where_its_number_means_it() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    here = processes.process_namespace()
    assert processes.is_gone(here, gone.pid)
    assert not processes.is_gone(here, os.getpid())
    assert not processes.is_gone("", gone.pid)
    assert not processes.is_gone(f"{here.partition('/')[0]}/1", gone.pid)  # another container on this machine
    assert not processes.is_gone(f"another/{here.partition('/')[2]}", gone.pid)  # another machine


# Reports of a job


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[RunReport]]:
    """Submits a job that is a shell script, and gives its reports; what it tells people is printed."""

    def submitted(script: str) -> list[RunReport]:
        monkeypatch.setattr(spark_submit, "submit_command", lambda *_: ["bash", "-c", script])
        monkeypatch.setattr(spark_submit, "submit_env", lambda *_: {})
        return run_submit.submit_all("run", "p", Settings.of(), {}, print)

    return submitted


def report_of(layer: str) -> RunReport:
    return RunReport("p", layer, [TableReport("t", layer, read=3)])


def reported(layer: str) -> str:
    """A shell command that sends the report of a layer."""
    return sent(REPORT, report_of(layer).as_dict())


BROKEN = sent(ERROR, ExpectationFailed("t broke a rule", hint="mend it").as_dict())
CUT_OFF = f'printf \'%s\' \'{REPORT} {{"pipeline": "p", "lay\' >> "${channel.FILE}"'


def test_a_job_gives_a_report_for_each_of_its_layers(
    job: Callable[[str], list[RunReport]], capsys: pytest.CaptureFixture[str]
) -> None:
    done = job(f"echo one; {reported('bronze')}; echo two; {reported('silver')}; echo three")
    assert done == [report_of(layer) for layer in ("bronze", "silver")]
    assert capsys.readouterr().out.splitlines() == ["one", "two", "three"]


def test_a_line_that_looks_like_an_error_hides_none_behind_it(
    job: Callable[[str], list[RunReport]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert job(f"echo one; echo 'error[SG1]: no'; echo two; {reported('bronze')}") == [report_of("bronze")]
    assert capsys.readouterr().out.splitlines() == ["one", "error[SG1]: no", "two"]


def test_an_error_has_the_reports_of_the_layers_before_it(job: Callable[[str], list[RunReport]]) -> None:
    with pytest.raises(ExpectationFailed, match="t broke a rule") as raised:
        job(f"{reported('bronze')}; {reported('silver')}; {BROKEN}; exit 3")
    assert [report.layer for report in raised.value.reports] == ["bronze", "silver"]
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("script", "told", "before"),
    [
        ("echo bye; exit 1", "the run job ended with exit code 1 and without a report", []),
        (f"{reported('bronze')}; exit 9", "the run job ended with exit code 9 after the report of bronze", ["bronze"]),
        # Killed in the middle of a line.
        (f"{reported('bronze')}; {CUT_OFF}; exit 9",
         "the run job ended with exit code 9 after the report of bronze", ["bronze"]),
    ],
    ids=["none", "killed-later", "killed-in-a-message"],
)  # fmt: skip
def test_a_job_that_does_not_say_how_it_ended_has_failed(
    job: Callable[[str], list[RunReport]], script: str, told: str, before: list[str]
) -> None:
    with pytest.raises(JobFailed) as raised:
        job(script)
    assert raised.value.message == told
    assert [report.layer for report in raised.value.reports] == before


@pytest.mark.parametrize(
    ("script", "before"),
    [
        ("echo bye", []),
        (f"{sent_as_it_is(f'{REPORT} ...')}; {reported('silver')}", ["silver"]),
        (f"{reported('bronze')}; {sent(REPORT, {'tables': 3})}", ["bronze"]),
        (f"{reported('bronze')}; {sent(REPORT, ['tables'])}", ["bronze"]),
        (f"{reported('bronze')}; {CUT_OFF}", ["bronze"]),
    ],
    ids=["none", "no-json", "other-facts", "a-list", "cut-off"],
)
def test_a_job_that_ended_well_did_so_whatever_becomes_of_its_report(
    job: Callable[[str], list[RunReport]], script: str, before: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tables are committed: an error would have a scheduler run it again, and lose what it reported."""
    done = job(script)
    assert [one.layer for one in done] == [*before, "run"]
    assert done[-1].notes == [UNREPORTED]
    assert done[-1].unreported
    assert f"warning: {UNREPORTED}" in capsys.readouterr().out


def test_a_report_of_another_version_is_read_by_what_is_known_of_it(job: Callable[[str], list[RunReport]]) -> None:
    facts = report_of("bronze").as_dict() | {"colour": "red"}
    facts["tables"][0]["shade"] = 3
    assert job(sent(REPORT, facts)) == [report_of("bronze")]


def test_a_byte_that_is_no_text_ends_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        spark_submit, "submit_command", lambda *_: ["bash", "-c", r"printf 'caf\351\n'; echo ended; exit 7"]
    )
    monkeypatch.setattr(spark_submit, "submit_env", lambda *_: {})
    told: list[str] = []
    with pytest.raises(JobFailed, match="exit code 7"):
        run_submit.submit("bronze", "p", Settings.of(), {}, told.append)
    assert told == ["caf\\xe9", "ended"]
