"""The notebook as it lies in the repository, and that a cell which fails would be told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sluicegate
from tests.conftest import ROOT
from tests.support.notebooks import cells, run_all

pytestmark = pytest.mark.unit

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def test_nobody_s_outputs_are_in_the_notebook() -> None:
    code = [cell for cell in cells(NOTEBOOK) if cell["cell_type"] == "code"]
    assert len(code) > 10
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []


def test_the_notebook_has_the_form_that_jupyter_asks_for() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    identities = [cell["id"] for cell in notebook["cells"]]
    assert len(identities) == len(set(identities))


def test_the_notebook_shows_each_function_of_the_package() -> None:
    text = "".join("".join(cell["source"]) for cell in cells(NOTEBOOK))
    # What changes which files are read again is for one who needs it; the page of Python has it.
    functions = {name for name in sluicegate.__all__ if name[0].islower()} - {
        "copy_into", "discard", "reload", "replay", "reset", "skip"
    }  # fmt: skip
    assert {name for name in functions if f"sg.{name}(" not in text} == set()


def test_a_cell_that_fails_is_told(tmp_path: Path) -> None:
    texts = ["x = 1\n", "y = x + 1\nprint(y)\n", "print(z)\n", "print('never')\n"]
    code = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in texts]
    notebook = tmp_path / "wrong.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["print("]}, *code]}))
    with pytest.raises(AssertionError) as told:
        run_all(notebook)
    assert "cell 3 of 4 failed:\nprint(z)\n" in str(told.value)
    assert "NameError: name 'z' is not defined" in str(told.value)
    assert "It had said:\n2\n" in str(told.value)
    notebook.write_text(json.dumps({"cells": code[:2]}))
    assert run_all(notebook) == "2\n"
