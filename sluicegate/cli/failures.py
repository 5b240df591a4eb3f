"""How a command that failed ends: one message for people or programs, an exit code, and no traceback."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import suppress
from typing import NoReturn

from sluicegate.console import say, warn
from sluicegate.errors import SluicegateError
from sluicegate.storage import store_errors

_DEBUG = "SLUICEGATE_DEBUG"

# Packages whose errors are about the files of a table; delta-rs also raises an OSError without a number.
_TABLE_READERS = {"pyarrow", "deltalake", "_internal"}

_HINTS = {
    errno.EACCES: "check who owns it, and its permissions",
    errno.ENOSPC: "free space on its disk, and run the command again",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), and run the command again",
}


def end_with(error: Exception) -> NoReturn:
    """Print an error and exit with its code; with ``SLUICEGATE_DEBUG`` an unexpected one is raised again."""
    if isinstance(error, BrokenPipeError):  # who read the output has ended, as `head` does
        _drop_output()
        sys.exit(1)
    failure = to_sluicegate_error(error)
    if failure is None:
        if os.environ.get(_DEBUG):
            raise error
        failure = _unexpected(error)
    with suppress(OSError):  # the exit code says enough where nothing can be printed
        _print(failure)
    _drop_output()
    sys.exit(failure.exit_code)


def to_sluicegate_error(error: Exception) -> SluicegateError | None:
    """Return our errors as they are, and one of the operating system in our words; None for an unexpected one."""
    if isinstance(error, SluicegateError):
        return error
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return SluicegateError("a path has a NUL character", hint="check the paths of the definition")
    is_of_table = type(error).__module__.partition(".")[0] in _TABLE_READERS
    if is_of_table or (isinstance(error, OSError) and error.errno is None):  # whose text says all
        return SluicegateError("a file of a table cannot be used", cause=_first_lines(error), hint="check the file")
    if not isinstance(error, OSError):
        return None
    place = "a file or an output"
    if isinstance(error.filename, str | bytes):
        place = os.fsdecode(error.filename)
    reason = (error.strerror or type(error).__name__).lower()
    hint = _HINTS.get(error.errno or 0, "check the path")
    return SluicegateError(f"cannot use {place}: {reason}", hint=hint)


def _unexpected(error: Exception) -> SluicegateError:
    hint = f"please report it, with the stack trace that {_DEBUG}=1 prints"
    return SluicegateError(f"unexpected {type(error).__name__}", cause=_first_lines(error), hint=hint)


def _first_lines(error: Exception) -> str:
    lines = store_errors.COLOURS.sub("", str(error)).splitlines()
    return "\n    ".join(line.strip(" ↳") for line in lines[:5])


def _print(error: SluicegateError) -> None:
    if "--json" in sys.argv:
        with suppress(OSError):
            return say(json.dumps({"error": error.as_dict()}, default=str))
    warn(*error.for_people().split("\n"), f"  more: sluicegate help {error.code}")


def _drop_output() -> None:
    """Leave what stdout still holds, if it cannot be written: Python would complain of it at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
