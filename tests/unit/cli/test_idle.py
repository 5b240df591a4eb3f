"""What a command imports where nothing is to be done: such a run takes as long as its imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from sluicegate.cli import app
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.lake import log
from sluicegate.landing import file_status, former_dialect, intake
from sluicegate.spark import spark_submit
from tests.conftest import ROOT, Workspace, beat

pytestmark = pytest.mark.unit

# What a run with nothing to do may import besides Python's own modules and what these bring with them. Each has its
# part in it: typer reads the command line, pydantic and yaml the definition, sqlglot its queries, deltalake the logs.
NEEDED = {"sluicegate", "typer", "pydantic", "yaml", "sqlglot", "deltalake"}
BROUGHT = {
    "annotated_doc", "annotated_types", "arro3", "cython_runtime", "mypy_extensions", "pydantic_core", "shellingham",
    "typing_extensions", "typing_inspection",
}  # fmt: skip

# What must not be there, so that it is told by its name: each takes longer to import than an offset to be read.
HEAVY = {
    "airflow", "boto3", "botocore", "croniter", "dateutil", "duckdb", "fsspec", "numpy", "pandas", "py4j", "pyarrow",
    "pyspark", "rich",
}  # fmt: skip

# Parts of Python, and of ours, that only other commands and runs with work need.
UNUSED = {"http.client", "ssl", "urllib.request", "sluicegate.landing.discovery", "sluicegate.storage.listings"}
UNUSED |= {
    f"sluicegate.{one}" for one in ("airflow", "bronze", "frames", "gold", "jobs", "maintenance", "silver", "tools")
}

FACTS = """
import json, sys
before = set(sys.modules)
from sluicegate.cli.__main__ import main
code = 0
try:
    main()
except SystemExit as ended:
    code = ended.code
new = sorted(set(sys.modules) - before)
print("FACTS" + json.dumps([code, new]))
"""

# A plugin of pydantic that does nothing.
PLUGIN = """
class Plugin:
    def new_schema_validator(self, *facts):
        return None, None, None

plugin = Plugin()
"""


@pytest.fixture
def idle(workspace: Workspace) -> Workspace:
    """A lake in which every table has taken in all there is, made as the jobs make it, but by delta-rs."""
    workspace.land("recordings/a.json", [beat(1, 1, 0, 60.0)])
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n")
    for name, table in workspace.definition.bronze.items():
        intake.enter(name, table, workspace.lake)
        (landed,) = (workspace.folder / "landing" / name.removesuffix("_bronze")).iterdir()
        rows = {"source_file": [f"file://{landed}"], "_chunk": [1], "_pos": [0], "_corrupt_record": [None],
                "_rescued_data": [None]}  # fmt: skip
        columns = {"device_id": [1], "mrn": [1], "time": [0.0], "heartrate": [60.0]} if "rec" in name else {"mrn": [1]}
        commit(workspace, name, rows | columns, chunk=1, files=1)
        file_status.copy(workspace.lake, name)
    commit(workspace, "patients", {"mrn": [1], "name": ["Ada"]})
    made = {"device_id": [1], "mrn": [1], "name": ["Ada"], "time": [0], "heartrate": [60.0]}
    commit(workspace, "recordings_enriched", made)
    commit(workspace, "daily_patient_avg", {"mrn": [1], "avg_heartrate": [60.0]})
    return workspace


def commit(workspace: Workspace, name: str, rows: dict[str, list[Any]], **ours: Any) -> None:
    """Commits rows as a run that takes in all there is: with its offset, and the versions of what it read."""
    layer, _ = workspace.definition.table(name)
    flow = flows.flows(workspace.definition, workspace.lake, layer)[name]
    now = progress(flow)
    dialect = former_dialect.facts(workspace.definition.bronze[name]) if layer == "bronze" else {}
    facts = {
        **dialect,
        "until": now.until,
        "inputs": dict(now.stamps),
        "fingerprint": flow.fingerprint,
        "seen": now.seen,
        **ours,
    }
    properties = CommitProperties(
        custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})},
        app_transactions=[Transaction(now.app_id, now.until)],
    )
    texts = {"_corrupt_record": pa.string(), "_rescued_data": pa.string()}
    table = pa.table({column: pa.array(values, texts.get(column)) for column, values in rows.items()})
    write_deltalake(workspace.uri(name), table, mode="append", commit_properties=properties)


def command(
    workspace: Workspace, *words: str, fails: bool = False, variables: Mapping[str, str] | None = None
) -> tuple[int, list[str], list[str]]:
    """Exit code of a command in a process of its own, what it prints, and the modules that it imports."""
    settings = workspace.settings
    places = {"SLUICEGATE_LAKE": settings.lake, "SLUICEGATE_LANDING": settings.landing,
              "SLUICEGATE_PIPELINES": str(settings.pipelines), "COLUMNS": "200"}  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | places
    environment |= {"PATH": "/none"} | dict(variables or {})
    line = [sys.executable, "-c", FACTS, *words]
    done = subprocess.run(line, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert fails or (done.returncode, done.stderr) == (0, "")
    *printed, facts = done.stdout.splitlines()
    code, modules = json.loads(facts.removeprefix("FACTS"))
    return code, printed, modules


def others(modules: list[str]) -> set[str]:
    """Packages that are neither Python's own nor among those that are needed."""
    packages = {name.partition(".")[0] for name in modules if not name.startswith("_")}
    return packages - NEEDED - BROUGHT - set(sys.stdlib_module_names)


def test_a_run_with_nothing_to_do_imports_what_it_needs_and_nothing_else(idle: Workspace) -> None:
    code, printed, modules = command(idle, "run", "heart_rate")
    assert (code, printed) == (
        0,
        ["nothing new: every landed file is in every table", "heart_rate is up to date; Spark was not started"],
    )
    assert HEAVY & {name.partition(".")[0] for name in modules} == set()
    assert UNUSED & set(modules) == set()
    assert others(modules) == set(), "a new package: if a run with nothing to do needs it, say so in NEEDED"


def test_a_command_looks_for_no_plugin_of_the_library_that_checks_definitions(idle: Workspace) -> None:
    """Reading the metadata of all distributions takes longer than the tables' logs; a job may have plugins."""
    facts = idle.folder / "packages" / "plugin-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[pydantic]\nplugin = plugin_of_a_user:plugin\n")
    (facts.parent / "plugin_of_a_user.py").write_text(PLUGIN)
    path = {"PYTHONPATH": str(facts.parent)}
    _, _, modules = command(idle, "run", "heart_rate", variables=path)
    assert "plugin_of_a_user" not in modules
    _, _, modules = command(idle, "run", "heart_rate", variables=path | {"PYDANTIC_DISABLE_PLUGINS": "another"})
    assert "plugin_of_a_user" in modules


@pytest.mark.parametrize("given", [None, "another"])
def test_a_job_has_the_plugins_that_it_had(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    monkeypatch.setattr(sys, "argv", ["sluicegate", "--version"])
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"})
    if given:
        os.environ["PYDANTIC_DISABLE_PLUGINS"] = given
    with pytest.raises(SystemExit):
        app.main()
    assert "PYDANTIC_DISABLE_PLUGINS" in os.environ
    assert spark_submit.submit_env().get("PYDANTIC_DISABLE_PLUGINS") == given


def test_a_command_imports_no_other_one(idle: Workspace) -> None:
    _, _, modules = command(idle, "run", "heart_rate")
    packages = {name.rpartition(".")[0] for name in modules if name.startswith("sluicegate.cli.")}
    assert packages & {f"sluicegate.cli.{package}" for package in ("building", "inspecting", "repairing")} == set()


def test_a_command_has_the_help_that_the_program_has_of_it(workspace: Workspace) -> None:
    _, alone, _ = command(workspace, "plan", "--help")
    _, among_all, _ = command(workspace, "help", "plan")
    assert any("--impact" in line for line in alone)
    assert alone[1:] == among_all[1:]


def test_a_look_at_the_tables_needs_no_arrow_either(idle: Workspace) -> None:
    code, printed, modules = command(idle, "status", "heart_rate")
    assert (code, printed[-1]) == (0, "nothing new: every landed file is in every table")
    assert (HEAVY - {"rich"}) & {name.partition(".")[0] for name in modules} == set()  # rich draws its table
    code, printed, modules = command(idle, "plan", "heart_rate", "--json")
    assert (code, json.loads("".join(printed))["nothing"]) == (0, True)
    assert HEAVY & {name.partition(".")[0] for name in modules} == set()


def test_a_run_with_work_imports_neither_numpy_nor_pandas_nor_other_stores(workspace: Workspace) -> None:
    workspace.land("recordings/a.json", [beat(1, 1, 0, 60.0)])
    code, _, modules = command(workspace, "run", "heart_rate", "--cold", fails=True)
    assert code != 0, "it has no Java to run with"
    assert {"pyarrow", "sluicegate.landing.discovery"} <= set(modules)
    assert {"fsspec", "numpy", "pandas"} & {name.partition(".")[0] for name in modules} == set()


def test_a_question_about_the_program_needs_no_definition(workspace: Workspace) -> None:
    for words in (("--version",), ("--help",)):
        code, printed, modules = command(workspace, *words)
        assert (code, bool(printed)) == (0, True)
        packages = {name.partition(".")[0] for name in modules}
        assert packages & (HEAVY | {"deltalake", "pydantic", "sqlglot", "yaml"}) == set()


def test_a_command_that_opens_duckdb_ends_without_a_word(idle: Workspace) -> None:
    """It complains of its objects that a process leaves behind, as one does that does not look for them at its end."""
    code, printed, modules = command(idle, "sql", "SELECT count(*) AS n FROM heart_rate.daily_patient_avg")
    assert (code, [line.strip() for line in printed]) == (0, ["n", "1", "", "1 row"])
    assert "duckdb" in modules
    assert {"numpy", "pandas"} & set(modules) == set()


def test_a_run_with_work_is_seen_by_what_it_imports(idle: Workspace) -> None:
    """Else the lists above could be of a run that looked at nothing."""
    idle.land("recordings/b.json", [beat(1, 1, 900, 61.0)])
    code, printed, modules = command(idle, "plan", "heart_rate")
    assert (code, printed[-1]) == (0, "waiting: 1 file of 67 B for recordings_bronze")
    assert {"pyarrow", "sluicegate.landing.discovery"} <= set(modules)
    assert {"fsspec", "numpy", "pandas"} & set(modules) == set()
