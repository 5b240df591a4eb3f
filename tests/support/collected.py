"""Every test that there is, with its markers, as pytest collects them: ``python -m tests.support.collected FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


class Collected:
    """Markers of each test by its id."""

    def __init__(self) -> None:
        self.marks: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.marks[item.nodeid] = sorted({mark.name for mark in item.iter_markers()})


def main(file: Path) -> int:
    """Writes them as JSON."""
    found = Collected()
    code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", str(ROOT / "tests")], plugins=[found])
    file.write_text(json.dumps(found.marks))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
