"""The notebook in examples/ does what it says, from its first cell to its last."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.support.notebooks import run_all

pytestmark = [pytest.mark.e2e, pytest.mark.more]


def test_the_notebook_runs_from_its_first_cell_to_its_last() -> None:
    said = run_all(ROOT / "examples" / "notebook.ipynb")
    assert "SG202" in said  # the name that is not there
    assert "layers with work: ['bronze', 'silver', 'gold']" in said
    assert "bronze recordings_bronze     1,500 read  1,500 written" in said
    assert "\n[]\n" in said  # the run after the run
    assert "unproved daily_patient_avg" in said
    assert "wrong" not in said
    assert said.count(" ingested ") == 3
    assert "['known_patient'] 6\n['valid_heartrate'] 5\n" in said
    assert "gold daily_patient_avg version 0 whole" in said
