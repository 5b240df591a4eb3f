"""Channel of a job: what it reports to the process that started it, apart from the lines that it prints for people.

Printed lines quote landed values, file names and what Spark and a user's functions say, so none of them is parsed. The
parent makes a file of mode 0600 in a folder of mode 0700, and names it in the job's environment, with a token that only
the two of them know. A job prints the token when it has written to the file. Where it cannot write to it (the disk is
full, or the job has another file system), it prints the message itself, with the token in it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from sluicegate.escapes import escape_text
from sluicegate.private_folders import PrivateFolder

FILE = "SLUICEGATE_CHANNEL"
"""Variable that names the channel's file to a job."""

TOKEN = "SLUICEGATE_CHANNEL_TOKEN"  # noqa: S105 (the variable's name)
"""Variable with the token of what a job prints for its parent."""

# Kind of a message that is printed, at the end of what stands before the token.
_WORD = re.compile(r"(?P<kind>[A-Z_]+) \Z")

# Bytes that have been read, from which on the file is emptied: a continuous run reports for months.
EMPTIED_AT = 1_000_000


# --- of the job ------------------------------------------------------------------------------------------------------


class _Sender:
    """The job's end of a channel."""

    def __init__(self, file: str, token: str) -> None:
        self._file, self._token = file, token

    def send(self, word: str, text: str) -> None:
        try:
            self._append(f"{word} {text}")
        except OSError:
            _print(f"{word} {self._token} {text}")
        else:
            _print(self._token)  # at which the parent looks into the file

    def _append(self, message: str) -> None:
        written = f"{message}\n".encode(errors="backslashreplace")
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = os.fstat(file).st_size
            if os.write(file, written) < len(written):
                os.ftruncate(file, before)
                raise OSError("the disk is full")
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # which closing does not do if a forked process has the file too
            os.close(file)


_sender: _Sender | None = None


def attach() -> None:
    """Take over the channel that this job's parent has named, and hide it from what the job starts."""
    global _sender
    file, token = os.environ.pop(FILE, ""), os.environ.pop(TOKEN, "")
    _sender = _Sender(file, token) if token else None


def is_attached() -> bool:
    """Return whether this job has a parent that listens; a job that a person starts has none."""
    return _sender is not None


def send(word: str, text: str) -> None:
    """Report to the parent; without one print the message, for whoever reads the output of jobs by a program.

    Args:
        word: kind of the message, without blanks.
        text: the message: JSON, on one line.
    """
    if _sender is None:
        _print(f"{word} {text}")
    else:
        _sender.send(word, text)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")  # one write: tables run concurrently
    sys.stdout.flush()


# --- of its parent ---------------------------------------------------------------------------------------------------


class Channel:
    """The parent's end of a channel; a context, at whose end the file is removed."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(16)
        self._folder: PrivateFolder | None = None
        self._file = -1
        self._read = 0  # bytes of the file
        self._rest = b""  # of a message whose end has not been read yet

    def __enter__(self) -> Self:
        with suppress(OSError):  # no temporary folder: the job prints its messages, with the token
            self._folder = PrivateFolder()
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._folder.path / "channel", flags, 0o600)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
        if self._folder is not None:
            self._folder.remove()

    def environment(self) -> dict[str, str]:
        """Return the variables that give the channel to a job."""
        file = ""
        if self._folder is not None and self._file >= 0:
            file = str(self._folder.path / "channel")
        return {FILE: file, TOKEN: self._token}

    def lines(self, output: Iterable[str], take: Callable[[str], None]) -> Iterator[str]:
        """Yield the lines of a job that are for people, as they come, escaped.

        Args:
            output: all that it prints, line by line.
            take: takes each message, as ``WORD {json}``; it gets those that were sent before a line before that line.
        """
        for line in output:
            for message in self._messages():
                take(message)
            head, token, text = line.rstrip("\n").partition(self._token)
            if text:
                word = _WORD.search(head)
                take(f"{word['kind'] if word else ''} {text.lstrip()}")
                if word:
                    head = head[: word.start()]
            if head or not token:  # something was printed before it without an end of its line
                yield escape_text(head.expandtabs(4))
        for message in self._messages():
            take(message)
        if self._rest:  # the job ended in the middle of it
            take(_text(self._rest))

    def _messages(self) -> list[str]:
        """Return the messages that were sent since the last call."""
        if self._file < 0 or os.fstat(self._file).st_size <= self._read:
            return []
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            new = os.pread(self._file, os.fstat(self._file).st_size - self._read, self._read)
            self._read += len(new)
            if self._read >= EMPTIED_AT:
                os.ftruncate(self._file, 0)
                self._read = 0
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        *whole, self._rest = (self._rest + new).split(b"\n")
        return [_text(line) for line in whole if line]


def _text(message: bytes) -> str:
    return message.decode(errors="backslashreplace")
