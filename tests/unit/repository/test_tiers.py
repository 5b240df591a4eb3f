"""The targets of make that run tests: each test is run by one of them, and the first has a test of every promise.

Each collection of tests is held to the first (``pytest_collection_modifyitems`` in ``tests/conftest.py``).
"""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT, refuse_misplaced
from tests.support.tiers import SHARES, TIERS, chosen_by, markers_of_tests, misplaced, shares

pytestmark = pytest.mark.unit

PROMISE = re.compile(r"^\| (?P<promise>[A-Z][^|]+) \| `[^|]+ \| (?P<tests>`[^|]+) \|$", re.MULTILINE)


@pytest.mark.parametrize(
    ("folder", "markers", "reason"),
    [
        ("unit", "unit", ""),
        ("unit", "unit parametrize skipif", ""),
        ("unit", "unit more", "is put off"),
        ("unit", "unit release", "is put off"),
        ("unit", "spark", "is marked as unit"),
        ("unit", "unit spark", "is marked as unit"),
        ("unit", "", "is marked as unit"),
        ("spark", "spark", ""),
        ("spark", "spark more ran", ""),
        ("spark", "spark more release", ""),
        ("spark", "spark chaos more", ""),
        ("spark", "e2e", "is marked as spark"),
        ("scale", "spark scale", ""),
        ("e2e", "e2e more", ""),
        ("e2e", "e2e compose", ""),
        ("e2e", "e2e chaos compose", "test-chaos and test-compose"),
        ("support", "unit", "no folder of tests"),
    ],
)
def test_a_test_has_the_marker_of_its_folder_and_is_run_by_one_target(folder: str, markers: str, reason: str) -> None:
    said = misplaced(folder, frozenset(markers.split()))
    assert bool(said) == bool(reason)
    assert reason in said


def test_no_misplaced_test_is_collected() -> None:
    refuse_misplaced({"tests/unit/x/test_y.py::test_z": frozenset({"unit"})})
    with pytest.raises(pytest.UsageError, match=r"tests/unit/x/test_y\.py::test_z: no test without Spark is put off"):
        refuse_misplaced({"tests/unit/x/test_y.py::test_z": frozenset({"unit", "more"})})


def test_each_target_has_tests() -> None:
    files = [file for folder in TIERS for file in (ROOT / "tests" / folder).rglob("test_*.py")]
    markers = [of_test for file in files for of_test in markers_of_tests(file)]
    assert len(markers) > 2000
    assert {target for of_test in {*markers} for target in shares(of_test)} == {*SHARES}


def test_the_first_has_a_test_of_every_promise() -> None:
    """Of those that docs/architecture.md names for it, one that is not about a part alone where there is another."""
    promises = list(PROMISE.finditer((ROOT / "docs" / "architecture.md").read_text()))
    assert len(promises) > 15
    missing = {}
    for line in promises:
        files = [f"tests/{name}" for name in re.findall(r"`([^`]+)`", line["tests"])]
        whole = [file for file in files if "/unit/" not in file] or files
        if not any(shares(markers) == ["test"] for file in whole for markers in markers_of_tests(ROOT / file)):
            missing[line["promise"]] = files
    assert missing == {}


def test_what_goes_in_has_passed_the_first_two() -> None:
    """One after the other: two suites in Spark at once would take each other's memory and cores."""
    assert re.findall(r"^step \S+ make (test[\w-]*)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE) == [
        "test",
        "test-commands",
    ]


def test_each_target_says_what_it_holds() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert [target for target in SHARES if f"| `make {target}` |" not in contributing] == []
    assert all(chosen_by(target) for target in SHARES)
