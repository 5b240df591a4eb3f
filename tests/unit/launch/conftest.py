from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder whose path leaves room for the name of a socket, whatever the test is called.

    ``tmp_path`` is made before: pytest makes its folders in the temporary one that it first finds.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)
