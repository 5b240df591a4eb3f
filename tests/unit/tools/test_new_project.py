"""A new project: all its files, none written over, and a definition and cases that hold at once."""

from __future__ import annotations

import ast
import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.definition import load
from sluicegate.errors import SluicegateError, UserError
from sluicegate.project_file import find_project
from sluicegate.settings import Settings
from sluicegate.spark import jars
from sluicegate.tools.project import doctor
from sluicegate.tools.project.new_project import create_project
from sluicegate.tools.testing import case_files

pytestmark = pytest.mark.unit

ORDERS = "order_id,ordered_at,customer,amount\n1,2026-01-01 10:00:00,Ada,12.50\n2,2026-01-02 11:30:00,Bo,7.25\n"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def files(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def settings_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(folder)
    return Settings.of()


def test_a_project_of_the_sample_has_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created = create_project(tmp_path / "shop", (), None)
    assert created.pipeline == "sales"
    assert created.existing == []
    assert set(created.written) == files(tmp_path / "shop") - {"landing/sales/orders/orders.csv"}
    assert "@" not in "".join((tmp_path / "shop" / file).read_text() for file in ("README.md", "requirements.txt"))
    assert find_project(tmp_path / "shop") is not None
    ast.parse((tmp_path / "shop" / "dags" / "pipelines.py").read_text())
    workflow = yaml.safe_load((tmp_path / "shop" / ".github" / "workflows" / "pipelines.yml").read_text())
    steps = [step.get("run") for step in workflow["jobs"]["test"]["steps"]]
    assert steps[-2:] == ["sluicegate plan sales", "sluicegate test sales"]
    settings = settings_of(tmp_path / "shop", monkeypatch)
    assert settings.lake == str(tmp_path / "shop" / "lake")
    assert len(case_files.load(load("sales", settings))) == 2


def test_a_project_of_files_has_their_pipeline_and_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders.csv").write_text(ORDERS)
    created = create_project(tmp_path / "My Shop", ["orders.csv"], None)
    assert created.pipeline == "my_shop"
    assert (tmp_path / "My Shop" / "landing" / "my_shop" / "orders" / "orders.csv").read_text() == ORDERS
    definition = load("my_shop", settings_of(tmp_path / "My Shop", monkeypatch))
    (case,) = case_files.load(definition)
    assert [table.table for table in case.steps[0].given] == ["orders_bronze"]
    text = (definition.folder / "tests" / "first.yaml").read_text()
    assert "Ada" not in text
    assert "Bo" not in text


def test_files_without_a_case_are_not_tested_in_ci(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2], "price": [1.5, 2.5]}), tmp_path / "prices.parquet")
    created = create_project(tmp_path / "shop", ["prices.parquet"], None)
    assert not any(command.endswith("test shop") for command in created.commands())
    assert "sluicegate test" not in (tmp_path / "shop" / ".github" / "workflows" / "pipelines.yml").read_text()


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "landing" / "sales" / "orders").mkdir(parents=True)
    (tmp_path / "landing" / "sales" / "orders" / "orders.csv").write_text("mine")
    created = create_project(tmp_path, (), None)
    assert created.existing == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "landing" / "sales" / "orders" / "orders.csv").read_text() == "mine"


@pytest.mark.parametrize("existing", ["sluicegate.toml", "pipelines/sales/pipeline.yaml"])
def test_a_folder_that_has_one_is_left_alone(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / existing).write_text("")
    with pytest.raises(UserError):
        create_project(tmp_path, (), None)
    assert files(tmp_path) == {existing}


@pytest.mark.parametrize("sources", [["missing.csv"], ["empty.csv"]])
def test_files_that_cannot_be_read_leave_no_project(tmp_path: Path, sources: list[str]) -> None:
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(SluicegateError):
        create_project(tmp_path / "shop", sources, None)
    assert not (tmp_path / "shop" / "sluicegate.toml").exists()


def test_the_command_prints_commands_that_fit_a_terminal(tmp_path: Path) -> None:
    done = CliRunner().invoke(app.app, ["init", "shop"])
    assert done.exit_code == 0
    lines = done.stdout.split("next:\n")[1].splitlines()
    assert lines[0] == "  cd shop"
    assert [line.split()[1] for line in lines[1:]] == ["doctor", "run", "sql", "test"]
    facts = json.loads(CliRunner().invoke(app.app, ["init", "other", "--json"]).stdout)
    assert all(len(command) <= 80 for command in facts["next"])


@pytest.mark.parametrize("folder", ["two\u3000words", "with\u00a0space", "new\nline/shop", "half\udcff/shop"])
def test_a_folder_may_have_any_space_and_be_below_any_other(tmp_path: Path, folder: str) -> None:
    assert create_project(tmp_path / folder, (), None).pipeline == "sales"
    readme = tmp_path / folder / "README.md"
    assert Path(folder).name in readme.read_text("utf-8").splitlines()[0]


@pytest.mark.parametrize("name", ["new\nline", "half\udcff", "line\u2028end", "bell\x07"])
def test_a_name_that_no_title_has_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="printed") as refused:
        create_project(tmp_path / name, (), None)
    assert refused.value.hint


# The doctor


def states(settings: Settings) -> dict[str, str]:
    return {check.name: check.state for check in doctor.checks(settings)}


def settings_in(folder: Path) -> Settings:
    return Settings(str(folder / "lake"), str(folder / "landing"), folder / "pipelines", "local[*]")


def test_a_machine_that_has_all_is_well(tmp_path: Path) -> None:
    create_project(tmp_path, (), None)
    assert set(states(settings_in(tmp_path)).values()) <= {"ok", "optional"}


def test_each_thing_that_is_missing_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SLUICEGATE_JARS", str(tmp_path / "jars"))
    (tmp_path / "jars").mkdir()
    for jar in jars.read():
        (tmp_path / "jars" / jar.file).write_text("damaged")
    (tmp_path / "file").write_text("")
    settings = Settings(str(tmp_path / "file" / "lake"), str(tmp_path), tmp_path / "pipelines", "local[*]")
    missing = {check.name: check.remedy for check in doctor.checks(settings) if check.state == "missing"}
    assert set(missing) == {"java", "jars", "lake", "pipelines"}
    assert all(missing.values())
    options: list[Any] = ["--lake", settings.lake, "--pipelines", str(settings.pipelines)]
    done = CliRunner().invoke(app.app, ["doctor", *options])
    assert done.exit_code == 2
    assert done.stdout.count("missing  ") == 4


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", no_version)
    found = states(settings_in(tmp_path))
    assert (found["pyspark"], found["airflow"]) == ("missing", "optional")
