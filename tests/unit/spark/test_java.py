"""A ``java`` that is no Java is an error of ours, whatever it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.errors import JavaMissing
from sluicegate.spark import java

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "program", [b"#!/bin/sh\nexec sleep 100\n", b"\x7fELF and no more", b"#!/bin/sh\nprintf '\\377' >&2\n", b""]
)
def test_a_program_that_is_no_java_is_refused(program: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "ANSWERS_WITHIN", 0.5)
    file = tmp_path / "bin" / "java"
    file.parent.mkdir()
    file.write_bytes(program)
    file.chmod(0o755)
    with pytest.raises(JavaMissing):
        java.java_version(str(file))


def test_a_release_file_of_another_encoding_has_the_version(tmp_path: Path) -> None:
    (tmp_path / "release").write_bytes(b'IMPLEMENTOR="M\xfcller"\nJAVA_VERSION="21.0.1"\n')
    assert java.java_version(str(tmp_path / "bin" / "java")) == "21.0.1"
