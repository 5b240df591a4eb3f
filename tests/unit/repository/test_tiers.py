"""The targets of make that run tests: each test is run by one of them, and the first has a test of every promise."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.unit

MAKEFILE = (ROOT / "Makefile").read_text()
# Those that share all tests among them; the others run some of these again, by what they need.
SHARES = ("test", "test-commands", "test-more", "test-release", "test-chaos", "test-scale", "test-compose")
PROMISE = re.compile(r"^\| (?P<promise>[A-Z][^|]+) \| `[^|]+ \| (?P<tests>`[^|]+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Markers of every test."""
    file = tmp_path_factory.mktemp("collected") / "marks.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.collected", str(file)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found: dict[str, list[str]] = json.loads(file.read_text())
    assert len(found) > 3000
    return {test: set(names) for test, names in found.items()}


def chosen_by(target: str) -> str:
    """The expression over markers by which a target chooses its tests."""
    line = re.search(rf'^{target}: setup.*\n\t@\$\(RUN\) -m pytest -m ("[^"]+"|[a-z]+)', MAKEFILE, re.MULTILINE)
    assert line is not None, f"{target} runs no tests"
    return line[1].strip('"')


def holds(expression: str, names: set[str]) -> bool:
    known = set(re.findall(r"[a-z0-9]+", expression)) - {"and", "or", "not"}
    return bool(eval(expression, {"__builtins__": {}}, {name: name in names for name in known}))


def shares(names: set[str]) -> list[str]:
    """The targets that run a test with such markers."""
    return [target for target in SHARES if holds(chosen_by(target), names)]


def test_each_test_is_run_by_one_target(marks: dict[str, set[str]]) -> None:
    assert {test: found for test, names in marks.items() if len(found := shares(names)) != 1} == {}
    assert {shares(names)[0] for names in marks.values()} == set(SHARES)


def test_no_unit_test_is_put_off(marks: dict[str, set[str]]) -> None:
    """They take seconds together."""
    assert [test for test, names in marks.items() if "unit" in names and shares(names) != ["test"]] == []


def test_the_first_has_a_test_of_every_promise(marks: dict[str, set[str]]) -> None:
    """Of those that docs/architecture.md names for it, one that is not about a part alone where there is another."""
    promises = list(PROMISE.finditer((ROOT / "docs" / "architecture.md").read_text()))
    assert len(promises) > 15
    first = {test.partition("::")[0] for test, names in marks.items() if shares(names) == ["test"]}
    missing = {}
    for line in promises:
        files = [f"tests/{name}" for name in re.findall(r"`([^`]+)`", line["tests"])]
        whole = [file for file in files if "/unit/" not in file] or files
        if not first & set(whole):
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
