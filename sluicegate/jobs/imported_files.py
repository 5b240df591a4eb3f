"""Files of the modules that a process has imported, and whether they have changed since."""

from __future__ import annotations

import os
import sys


class ImportedFiles:
    """Facts on the files of all modules, as of a library of the user's own that transforms import."""

    def __init__(self) -> None:
        self._facts: dict[str, tuple[int, int] | None] = {}

    def note(self) -> None:
        """Take down the files of modules that were imported since the last time."""
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file not in self._facts:
                self._facts[file] = _facts(file)

    def have_changed(self) -> bool:
        """Return whether one of them was changed, removed or replaced."""
        return any(_facts(file) != facts for file, facts in self._facts.copy().items())


def _facts(file: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(file)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
