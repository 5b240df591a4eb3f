"""Follows a page of the documents as a person does: saves its files, types its commands, compares what comes out.

On a page

- a block of ``sh`` has commands, one a line: of sluicegate, ``python -m`` and a module, ``python`` and a file that the
  page has saved, or ``rm -r`` and folders;
- one of ``python`` is given to Python;
- a block after ``Save this as `PATH`:`` is a file;
- a block without a language is what the commands since the last such block have said. In it ``…`` stands for some part
  of a line, and on a line of its own for some lines; how wide a gap between two words is does not matter. A command
  that is to fail shows its ``error[SGxxx]`` there.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

BLOCK = re.compile(r"^(?:Save this as `([^`\n]+)`:\n\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED_IN_TEXT = re.compile(r"\bSave this as `([^`\n]+)`:\n\n(?=```)")
SLUICEGATE = [sys.executable, "-m", "sluicegate.cli"]
FAILS = re.compile(r"^error\[SG\d+\]", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """Something to do, or to see.

    Attributes:
        kind: ``save``, ``sh``, ``python`` or ``shows``; others are there to be read only.
        text: the block.
        file: of ``save``, the path.
        fails: whether the block that shows what it says has an error in it.
    """

    kind: str
    text: str
    file: str = ""
    fails: bool = False


def steps(page: str) -> list[Step]:
    """What a page asks for, in its order."""
    # A file may be named at the end of a paragraph, too.
    page = SAVED_IN_TEXT.sub(r"\nSave this as `\1`:\n\n", page)
    found = [Step("save" if file else language or "shows", text, file) for file, language, text in BLOCK.findall(page)]
    return [Step(step.kind, step.text, step.file, _fails(found[n + 1 :])) for n, step in enumerate(found)]


def _fails(following: list[Step]) -> bool:
    return bool(following and following[0].kind == "shows" and FAILS.search(following[0].text))


def shows(shown: str, said: str) -> bool:
    """Whether what a page shows is what was said, all of it."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else rf"\s*{_loosely(line)}[^\S\n]*\n" for line in _lines(shown)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(said))) is not None


def _lines(text: str) -> Iterator[str]:
    return (line.rstrip() for line in text.splitlines() if line.strip())


def _loosely(line: str) -> str:
    parts = (r"[^\S\n]+".join(map(re.escape, part.split())) for part in re.split("…", line))
    return r"[^\n]*?".join(parts)


def follow_in_process(page: str) -> None:
    """Gives blocks of ``python`` to this Python, one after the other as in a notebook, and compares what they say.

    Raises:
        AssertionError: a block said something else than the page shows, or the page has other things to do.
    """
    names: dict[str, object] = {"__name__": "page"}
    said = io.StringIO()
    for step in steps(page):
        assert step.kind in ("python", "shows"), step
        if step.kind == "python":
            with redirect_stdout(said):
                exec(compile(step.text, "page", "exec"), names)
            continue
        assert shows(step.text, said.getvalue()), f"the page shows\n{step.text}\nand this was said\n{said.getvalue()}"
        said = io.StringIO()


class Person:
    """Types what a page says; what does not end by itself goes on beside, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, ""
        self.unseen = ""
        self.environment = os.environ | {"SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(ROOT)}
        self.beside: subprocess.Popen[str] | None = None

    def follow(self, page: str) -> None:
        """Does what a page asks for, and stops what it has started.

        Raises:
            AssertionError: something failed that was not to fail, or said something else than the page.
        """
        try:
            for step in steps(page):
                self.do(step)
        finally:
            if self.beside is not None and self.beside.poll() is None:
                self.beside.kill()

    def do(self, step: Step) -> None:
        if step.kind == "save":
            file = self.folder / step.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text)
        elif step.kind == "python":
            self.run(step.text, [sys.executable, "-c", step.text], step.fails)
        elif step.kind == "sh":
            *before, last = step.text.splitlines()
            for line in before:
                self.type(line)
            self.type(last, step.fails)
        elif step.kind == "shows":
            assert self.unseen, f"nothing was said, and the page shows\n{step.text}"
            assert shows(step.text, self.unseen), f"the page shows\n{step.text}\nand this was said\n{self.unseen}"
            self.unseen = ""

    def type(self, line: str, fails: bool = False) -> None:
        program, *words = shlex.split(line)
        if program == "python":
            self.run(line, [sys.executable, *words], fails)
            return
        if (program, words[0]) == ("rm", "-r"):
            for name in words[1:]:
                self.remove(name)
            return
        assert program == "sluicegate", line
        command = [*SLUICEGATE, *words]
        if "--continuous" in command:
            self.beside = subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
            self.wait_for_stream()
            return
        self.run(line, command, fails)
        if "--stop-all" in command and self.beside is not None:
            out, _ = self.beside.communicate(timeout=300)
            assert self.beside.returncode == 0, out

    def remove(self, name: str) -> None:
        folder = (self.folder / name).resolve()
        assert self.folder.resolve() in folder.parents, f"{name} is none of the page's own folders"
        shutil.rmtree(folder)

    def run(self, what: str, command: list[str], fails: bool = False) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) == fails, f"{what}\n{done.stdout}{done.stderr}"
        said = done.stdout + (done.stderr if fails else "")
        self.said += f"$ {what}\n{said}"
        self.unseen += said
        return done.stdout

    def wait_for_stream(self) -> None:
        end = time.monotonic() + 300
        while "running" not in subprocess.run([*SLUICEGATE, "streams"], cwd=self.folder, env=self.environment,
                                              capture_output=True, text=True, check=True).stdout:  # fmt: skip
            assert self.beside is not None
            assert self.beside.poll() is None, self.beside.communicate()[0]
            assert time.monotonic() < end
            time.sleep(1)
