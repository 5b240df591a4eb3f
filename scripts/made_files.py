"""Files of docs that are made from the source: written, or compared with what they should be.

A script that makes such files says what is out of date, and this module does the same for all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def outdated_files(made: Mapping[Path, str]) -> dict[Path, str]:
    """Those of some files that do not have the text that they should have, each with that text."""
    return {file: text for file, text in made.items() if not file.is_file() or file.read_text("utf-8") != text}


def is_check(program: str, about: str | None, argv: Sequence[str] | None) -> bool:
    """Whether a command line asks to compare, by ``--check``, and not to write.

    Args:
        program: the command, as its help names it.
        about: the help.
        argv: the arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    return bool(parser.parse_args(argv).check)


def write_stale(stale: Mapping[str, tuple[Path, str]], source: str, *, check: bool) -> int:
    """Writes files that are out of date or, to check, names them; returns the exit code.

    Args:
        stale: file and text of each, by the name that is shown.
        source: what the files are compared with, as in ``not what the source gives``.
        check: whether to write nothing.
    """
    for name, (file, text) in stale.items():
        if check:
            print(f"{name} is not what {source}: run `make docs`", file=sys.stderr)
        else:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0
