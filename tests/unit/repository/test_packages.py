"""Packages, versions, and what a contributor's machine and CI check: they agree with one another."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import packages
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()


def test_a_wheel_that_lacks_a_module_or_a_script_is_refused() -> None:
    modules = {file.relative_to(ROOT).as_posix() for file in (ROOT / "sluicegate").rglob("*.py")}
    scripts = {f"sluicegate/{file.relative_to(ROOT).as_posix()}" for file in (ROOT / "spark_jobs").rglob("*.py")}
    assert packages.missing_modules(ROOT, modules | scripts | {"sluicegate/py.typed"}) == []
    assert packages.missing_modules(ROOT, (modules | scripts) - {"sluicegate/errors.py"}) == ["sluicegate/errors.py"]
    assert "sluicegate/spark_jobs/bronze.py" in packages.missing_modules(ROOT, modules)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"--version": "sluicegate 9.9.9"}, "9.9.9"),
        ({"plan": "nothing to do"}, "does not name the table"),
        ({"new": None}, "ended with exit code 2"),
    ],
)
def test_a_wheel_that_does_not_work_is_refused(
    answers: dict[str, str | None], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = {"--version": "sluicegate 1.2.3", "new": "", "plan": "orders"}

    def answer(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        printed = (right | answers).get(command[1], "")
        if printed is None:
            return subprocess.CompletedProcess(command, 2, "", "error[SG100]")
        return subprocess.CompletedProcess(command, 0, printed, "")

    monkeypatch.setattr(subprocess, "run", answer)
    with pytest.raises(packages.PackageError, match=reason):
        packages.try_wheel(tmp_path / "a.whl", "1.2.3", tmp_path)


def test_the_source_distribution_has_all_that_is_tracked() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("this is no checkout of git")
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    by_itself = {".gitignore", "LICENSE", "README.md", "pyproject.toml"}  # hatchling adds these
    names = {line.partition("/")[0] for line in tracked.stdout.splitlines()}
    assert names - by_itself - {name.removeprefix("/") for name in hatch["include"]} == set()


def test_a_package_is_tried_without_the_settings_of_this_checkout() -> None:
    environment = {"PATH": "/bin", "PYTHONPATH": "/x", "SLUICEGATE_LAKE": "/y", "VIRTUAL_ENV": "/z", "SPARK_HOME": "/s"}
    assert packages.clean(environment) == {"PATH": "/bin"}


def test_the_version_is_one_everywhere() -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    assert [package["version"] for package in locked if package["name"] == "sluicegate"] == [PROJECT["version"]]
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text()
    minor = PROJECT["version"].rpartition(".")[0]
    assert re.search(rf"\bversion\s+{re.escape(minor)},\s+alpha", (ROOT / "README.md").read_text())


def test_the_workflow_runs_what_any_machine_can_run_with_each_supported_python() -> None:
    jobs = WORKFLOW["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert ".ci/run" in commands
    targets = {target for command in commands if command.startswith("make ") for target in command.split()[1:]}
    assert targets <= set(re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE))
    pythons = {
        step["with"]["python-version"] for step in jobs["run"]["steps"] if "setup-python" in step.get("uses", "")
    }
    pythons |= set(jobs["unit"]["strategy"]["matrix"]["python"])
    assert pythons == {line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if " :: 3." in line}


def test_ci_builds_and_tries_the_packages() -> None:
    assert re.search(r"^step \S+ make packages$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


def test_a_commit_is_checked_by_what_make_check_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    programs = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert programs == {"ruff", "mypy", "lint-imports"}
    check = MAKEFILE[MAKEFILE.index("\ncheck: ") : MAKEFILE.index("\nfmt: ")]
    assert [program for program in programs if program not in check] == []
    folders = re.search(r"^CODE := \$\(wildcard (.+)\)$", MAKEFILE, re.MULTILINE)
    assert folders is not None
    assert [hook["entry"].split("--strict ")[1] for hook in hooks if hook["id"] == "mypy"] == [folders[1]]


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda file: file.stem
)
def test_a_form_for_issues_has_what_github_requires(form: Path) -> None:
    content = yaml.safe_load(form.read_text())
    assert content["name"]
    assert content["description"]
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert [field for field in fields if not field["attributes"].get("label")] == []
