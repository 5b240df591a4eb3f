"""A job's messages reach its parent whole, in order, and whatever the job prints besides."""

from __future__ import annotations

import fcntl
import io
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate import channel, console
from sluicegate.flow.report import ERROR, REPORT
from tests.conftest import ROOT

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _nobody_attached() -> Iterator[None]:
    yield
    channel._sender = None


def received(ours: channel.Channel, printed: str) -> tuple[list[str], list[str]]:
    """The messages, and the lines for people, of what a job has printed and sent."""
    messages: list[str] = []
    lines = list(ours.lines(io.StringIO(printed), messages.append))
    return messages, lines


def attach(ours: channel.Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job does as it starts, here."""
    for name, value in ours.environment().items():
        monkeypatch.setenv(name, value)
    channel.attach()


def test_a_message_comes_before_the_line_after_it() -> None:
    code = """
from sluicegate import channel
channel.attach()
print("one", flush=True)
channel.send("KIND", '{"n": 1}')
print("two", end="", flush=True)
channel.send("KIND", '{"n": 2}')
print("three")
"""
    told: list[str] = []
    with channel.Channel() as ours:
        job = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **ours.environment()}, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        for line in ours.lines(job.stdout or (), told.append):
            told.append(line)
        assert job.wait() == 0
    assert [line for line in told if "KIND" in line] == ['KIND {"n": 1}', 'KIND {"n": 2}']
    assert [line for line in told if "KIND" not in line] == ["one", "two", "three"]
    assert told.index('KIND {"n": 1}') < told.index("two")
    assert told.index('KIND {"n": 2}') < told.index("three")


def test_nobody_else_can_read_it_and_it_is_removed() -> None:
    with channel.Channel() as ours:
        file = Path(ours.environment()[channel.FILE])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.parent.exists()


def test_what_a_job_starts_does_not_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with channel.Channel() as ours:
        attach(ours, monkeypatch)
        assert channel.is_attached()
        assert not {channel.FILE, channel.TOKEN} & os.environ.keys()


@pytest.mark.parametrize("lost", ["no folder", "no file", "a link"])
def test_where_there_is_no_file_the_messages_are_printed_with_the_token(
    lost: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if lost == "no folder":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with channel.Channel() as ours:
        if lost != "no folder":
            file = Path(ours.environment()[channel.FILE])
            file.unlink()
            if lost == "a link":
                (tmp_path / "other").touch()
                file.symlink_to(tmp_path / "other")
        attach(ours, monkeypatch)
        sys.stdout.write("a value without an end of its line: ")
        channel.send("KIND", '{"n": 1}')
        print("KIND 0123456789abcdef {}")
        channel.send("OTHER", "2")
        printed = capsys.readouterr().out
        assert received(ours, printed) == (
            ['KIND {"n": 1}', "OTHER 2"],
            ["a value without an end of its line: ", "KIND 0123456789abcdef {}"],
        )
    assert not any(tmp_path.glob("other/*"))


def test_a_message_that_a_full_disk_cut_off_does_not_spoil_the_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = os.write
    with channel.Channel() as ours:
        attach(ours, monkeypatch)
        monkeypatch.setattr(os, "write", lambda file, text: write(file, text[:9]))
        channel.send("KIND", '{"n": 1}')
        monkeypatch.setattr(os, "write", write)
        channel.send("KIND", '{"n": 2}')
        messages, lines = received(ours, capsys.readouterr().out)
    assert sorted(messages) == ['KIND {"n": 1}', 'KIND {"n": 2}']
    assert lines == []


def test_the_file_of_a_long_run_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "EMPTIED_AT", 1_000)
    with channel.Channel() as ours:
        attach(ours, monkeypatch)
        messages: list[str] = []
        for number in range(500):
            channel.send("KIND", f'"{number:040}"')
            list(ours.lines(["\n"], messages.append))
            assert os.path.getsize(ours.environment()[channel.FILE]) < 2_000
    assert messages == [f'KIND "{number:040}"' for number in range(500)]


def test_a_process_that_is_forked_in_the_middle_of_a_message_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    write = os.write

    def forked(file: int, data: bytes) -> int:
        kept.append(os.dup(file))  # as the other process has it
        return write(file, data)

    with channel.Channel() as ours:
        attach(ours, monkeypatch)
        monkeypatch.setattr(os, "write", forked)
        channel.send("KIND", "1")
        with open(ours.environment()[channel.FILE], "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for one in kept:
        os.close(one)


def test_a_job_that_a_person_starts_prints_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    channel.attach()
    channel.send(REPORT, "{}")
    console.say_and_send(console.PAGE, "Spark's page: ", "http://here:4040")
    assert capsys.readouterr().out.splitlines() == [f"{REPORT} {{}}", "Spark's page: http://here:4040"]


KINDS = (REPORT, ERROR, console.PAGE, "SLUICEGATE_BATCH")
FORGED = st.builds("{} {}".format, st.sampled_from([*KINDS, "Spark's page:"]), st.text())
PRINTED = st.tuples(st.just("printed"), st.one_of(st.text(), FORGED))
SENT = st.tuples(st.just("sent"), st.sampled_from(KINDS), st.dictionaries(st.text(), st.text(), max_size=2))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(PRINTED, SENT), max_size=8))
def test_no_printed_text_is_a_message_and_no_message_is_lost(events: list[tuple[str, ...]]) -> None:
    with channel.Channel() as ours:
        sender = channel._Sender(*ours.environment().values())
        expected = []
        output = io.StringIO()
        stdout, sys.stdout = sys.stdout, output
        try:
            for event in events:
                if event[0] == "printed":
                    print(event[1].encode(errors="replace").decode())
                else:
                    text = json.dumps(event[2])
                    sender.send(event[1], text)
                    expected.append(f"{event[1]} {text}")
        finally:
            sys.stdout = stdout
        messages, _ = received(ours, output.getvalue())
    assert messages == expected
