"""Python transforms as files: loaded afresh, leaving nothing behind, with every error at its line."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from sluicegate.errors import TransformError
from sluicegate.frames import python_function

pytestmark = pytest.mark.unit


def load(folder: Path, text: str, function: str = "enrich") -> python_function.Transform:
    (folder / "transforms.py").write_text(text)
    return python_function.load(folder, f"transforms.py:{function}")


def test_it_is_loaded_afresh_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before, path = set(sys.modules), list(sys.path)
    first = load(tmp_path, "def enrich(batch, tables): return 1\n")
    second = load(tmp_path, "def enrich(batch, tables): return 2\n")
    assert (first(None, {}), second(None, {})) == (1, 2)  # type: ignore[arg-type]
    assert {name for name in set(sys.modules) - before if "transform" in name} == set()
    assert sys.path == path
    assert [found.name for found in tmp_path.iterdir()] == ["transforms.py"]


def test_a_file_may_have_dataclasses_and_read_its_own_name(tmp_path: Path) -> None:
    text = """\
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Rule:
    limit: int
def enrich(batch, tables): return Rule(3).limit, __file__, __name__ == "__main__"
"""
    assert load(tmp_path, text)(None, {}) == (3, str(tmp_path / "transforms.py"), False)  # type: ignore[arg-type]


def test_workers_get_the_function_itself(tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    function = load(tmp_path, "limit = 4\ndef enrich(batch, tables): return limit\n")
    (tmp_path / "transforms.py").unlink()
    assert pickle.loads(cloudpickle.dumps(function))(None, {}) == 4


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\nraise ValueError('no')\ndef enrich(batch, tables): ...\n", 2, "ValueError: no"),
        ("import sys\nsys.exit(0)\ndef enrich(batch, tables): ...\n", 2, "SystemExit: 0"),
        ("import nothing_of_that_name\ndef enrich(batch, tables): ...\n", 1, "No module named"),
        ("import helpers\ndef enrich(batch, tables): ...\n", 1, "a transform is one file"),
        ("def enrich(batch, tables): ...\nenrich = 5\n", 1, "no longer a function"),
        ("def enrich(batch): ...\n", 1, "batch and tables"),
        ("x = 1\nreturn 5\ndef enrich(batch, tables): ...\n", 2, "outside function"),
        ("def enrich(batch, tables:\n", 1, "Python"),
    ],
)
def test_a_file_that_cannot_be_run(tmp_path: Path, text: str, line: int, words: str) -> None:
    (tmp_path / "helpers.py").write_text("")
    before = set(sys.modules)
    with pytest.raises(TransformError) as caught:
        load(tmp_path, text)
    error = caught.value
    assert (error.code, error.exit_code) == ("SG211", 2)
    assert (error.where.file, error.where.line) == (str(tmp_path / "transforms.py"), line)
    assert words in error.for_people()
    assert [name for name in set(sys.modules) - before if name.startswith("_sluicegate")] == []


def test_a_file_outside_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "other.py").write_text("raise SystemExit")
    with pytest.raises(TransformError, match="the pipeline's folder"):
        python_function.load(tmp_path / "pipeline", "../other.py:enrich")
