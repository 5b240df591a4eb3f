"""What holds for the repository as a whole, and a reader relies on."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from sluicegate.spark.jars import read
from tests.conftest import ROOT as REPOSITORY
from tests.support.offenders import offenders

pytestmark = pytest.mark.unit

FOLDERS = ("sluicegate", "spark_jobs", "dags", "scripts", "bench", "tests", "pipelines")
SOURCES = sorted(file for folder in FOLDERS for file in (REPOSITORY / folder).rglob("*.py"))
MAKEFILE = (REPOSITORY / "Makefile").read_text()
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def named(file: Path) -> str:
    return str(file.relative_to(REPOSITORY))


@pytest.mark.parametrize("arguments", [[], ["help"]], ids=["alone", "help"])
def test_make_lists_every_target(arguments: list[str]) -> None:
    # Not the options of the make that may be running this very test.
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }
    listed = subprocess.run(
        ["make", *arguments], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    ).stdout
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    targets = set(phony[1].split())
    assert {"help", "setup", "demo", "test", "check", "clean"} <= targets
    assert set(re.findall(r"^  ([a-z][a-z0-9-]*)  ", listed, re.MULTILINE)) == targets


@pytest.mark.parametrize("target", ["demo", "test", "check"])
def test_what_needs_the_environment_sets_it_up(target: str) -> None:
    assert re.search(rf"^{target}: setup\b", MAKEFILE, re.MULTILINE)


def is_short(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 450


def is_lazy(file: Path) -> None:
    code = [node for node in ast.parse(file.read_text()).body if not isinstance(node, ast.Expr)]
    assert not code or ast.unparse(code[0]) == "from __future__ import annotations"


def is_of_a_tier(file: Path) -> None:
    assert re.search(r"^pytestmark = .*pytest\.mark\.(unit|spark|e2e)\b", file.read_text(), re.MULTILINE)


def mirrors_a_package(folder: Path) -> None:
    """Fails a folder of tests that is called otherwise than every package is."""
    tier = REPOSITORY / "tests" / folder.relative_to(REPOSITORY / "tests").parts[0]
    assert (REPOSITORY / "sluicegate" / folder.relative_to(tier)).is_dir()


def test_folders_of_tests_mirror_the_packages() -> None:
    files = [file for tier in ("unit", "spark") for file in (REPOSITORY / "tests" / tier).rglob("test_*.py")]
    folders = {file.parent for file in files if REPOSITORY / "tests" / "unit" / "repository" not in file.parents}
    assert offenders(mirrors_a_package, sorted(folders), named) == []


def test_helpers_of_tests_lie_in_support() -> None:
    tests = REPOSITORY / "tests"
    loose = [file for tier in ("unit", "spark", "e2e", "scale") for file in (tests / tier).rglob("*.py")]
    loose += tests.glob("*.py")
    assert [named(file) for file in loose if not file.name.startswith("test_") and file.name != "conftest.py"] == []


def test_a_module_is_short_enough_to_read() -> None:
    assert offenders(is_short, [file for file in SOURCES if "tests" not in file.parts], named) == []


def test_annotations_are_lazy_everywhere() -> None:
    assert offenders(is_lazy, SOURCES, named) == []


def test_every_test_belongs_to_a_tier() -> None:
    assert offenders(is_of_a_tier, sorted((REPOSITORY / "tests").rglob("test_*.py")), named) == []


def test_what_breaks_a_rule_of_the_repository_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("from __future__ import annotations\n" + "x = 1\n" * 450)
    (tmp_path / "short.py").write_text("import os\n" + "x = 1\n" * 449)
    files = sorted(tmp_path.iterdir())
    names = {check: [told.partition(":")[0] for told in offenders(check, files, lambda file: file.name)]
             for check in (is_short, is_lazy, is_of_a_tier)}  # fmt: skip
    assert names == {is_short: ["long.py"], is_lazy: ["short.py"], is_of_a_tier: ["long.py", "short.py"]}
    with pytest.raises(AssertionError, match="nothing to look at"):
        offenders(is_short, [])


def test_the_changelog_has_room_for_what_is_unreleased() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    unreleased = re.search(r"^## \[Unreleased\]$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    assert unreleased is not None


def test_jar_and_package_of_delta_are_one_version() -> None:
    packages = dict(pin.split("==") for pin in PROJECT["project"]["dependencies"] if "==" in pin)
    jars = {jar.coordinate.split(":")[1]: jar.coordinate.split(":")[2] for jar in read()}
    spark = ".".join(packages["pyspark"].split(".")[:2])
    assert jars == {f"delta-spark_{spark}_2.13": packages["delta-spark"], "delta-storage": packages["delta-spark"]}


def test_uv_is_one_version_everywhere() -> None:
    pinned = PROJECT["tool"]["uv"]["required-version"]
    assert f"uv{pinned}" in PROJECT["dependency-groups"]["dev"]


def test_what_ci_runs_can_be_started() -> None:
    run = REPOSITORY / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert all(f"make {target}" in run.read_text() for target in ("setup", "check", "test"))


def ends_with_main(file: Path) -> None:
    text = file.read_text()
    assert "import main" in text
    assert "    sys.exit(main(" in text


def test_each_script_of_a_job_runs_the_main_of_its_module() -> None:
    assert not offenders(ends_with_main, sorted((REPOSITORY / "spark_jobs").rglob("*.py")))
