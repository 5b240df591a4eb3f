"""Runs a notebook as a person does who presses "run all": its cells of code, one after the other, in one Python.

No kernel and no Jupyter is needed for that: a notebook is JSON, and the cells of ours are plain Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

# Given to a Python of its own, with the notebook as its argument. It says which cell failed, and goes no further.
RUN = """
import json, sys, traceback
cells = [cell for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
names = {"__name__": "__main__"}
for number, cell in enumerate(cells, 1):
    text = "".join(cell["source"])
    try:
        exec(compile(text, f"<cell {number}>", "exec"), names)
    except BaseException:
        traceback.print_exc()
        sys.exit(f"cell {number} of {len(cells)} failed:\\n{text}")
"""


def cells(notebook: Path) -> list[dict[str, Any]]:
    """The cells of a notebook, of text and of code."""
    found: list[dict[str, Any]] = json.loads(notebook.read_text())["cells"]
    return found


def run_all(notebook: Path, **environment: str) -> str:
    """Runs the cells of code in the notebook's folder, as Jupyter does, and returns what they printed.

    Args:
        notebook: the file.
        environment: variables for it besides those that there are.

    Raises:
        AssertionError: a cell failed; the message says which, and how.
    """
    environ = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, "-c", RUN, notebook.name]
    done = subprocess.run(command, cwd=notebook.parent, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{notebook.name}: {done.stderr}\nIt had said:\n{done.stdout}"
    return done.stdout
