"""Which definitions and tables a query opens: those that it names, and what it gives is as if all were open."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from sluicegate import api, definition
from sluicegate.cli import app
from sluicegate.errors import QueryError
from sluicegate.settings import Settings
from sluicegate.tools.sqlshell import shell
from sluicegate.tools.sqlshell.definitions import definitions_of_tables
from sluicegate.tools.sqlshell.names import known_tables

pytestmark = pytest.mark.unit

BRONZE = '{path: "${landing}", format: json, schema: "a INT", expect_all: {some: a > 0}}'
SILVER = '{sql: "SELECT a FROM STREAM(%s)", pii: [a], deidentified: {a: mask}}'
DEFINITIONS = {
    "clinic": f"bronze: {{beats: {BRONZE}, shared: {BRONZE}}}\nsilver: {{clean: {SILVER % 'beats'}}}\n",
    "sport": f"database: {{name: arena}}\nbronze: {{shared: {BRONZE}, laps: {BRONZE}}}\n",
    "school": f"database: {{name: clinic}}\nbronze: {{pupils: {BRONZE}, beats: {BRONZE}}}\n",
    "quoted": f'bronze: {{"\\x72are": {BRONZE}}}\n',
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines", "local")
    for name, text in DEFINITIONS.items():
        define(settings, name, text)
    for pipeline, table in (("clinic", "beats"), ("clinic", "shared"), ("sport", "shared"), ("sport", "laps"),
                            ("school", "pupils"), ("school", "beats"), ("quoted", "rare")):  # fmt: skip
        write_deltalake(f"{settings.lake}/{pipeline}/bronze/{table}", pa.table({"pipeline": [pipeline]}))
    return settings


def define(settings: Settings, name: str, text: str) -> None:
    (settings.pipelines / name).mkdir(parents=True)
    (settings.pipelines / name / "pipeline.yaml").write_text(f"name: {name}\n{text}")


def ask(settings: Settings, query: str) -> Result:
    places = ["--lake", settings.lake, "--pipelines", str(settings.pipelines)]
    return CliRunner().invoke(app.app, ["sql", query, *places, "--json"])


OWNERS = ("", "clinic.", "sport.", "school.", "quoted.", "arena.", "nobody.", "CLINIC.", "clinic.arena.")
TABLES = ("beats", "shared", "laps", "pupils", "rare", "clean", "clean_quarantine", "clean_deidentified", "SHARED",
          "beats_rejected", "clean_rejected", "beats_quarantine", "a", "nothing")  # fmt: skip


def test_a_name_means_the_same_as_among_all_definitions(settings: Settings) -> None:
    everything = {name: definition.load(name, settings) for name in DEFINITIONS}
    tables_by_name = known_tables(everything, settings)
    for name in map("".join, product(OWNERS, TABLES)):
        few, wrong = definitions_of_tables([name], settings)
        meant = known_tables(few, settings).get(name.lower())
        assert (name, meant, wrong) == (name, tables_by_name.get(name.lower()), {})
        assert set(few) == set(everything) or meant is not None, "a hint needs all names"


def test_few_definitions_are_read_for_a_name(settings: Settings) -> None:
    names = {"clinic.beats": {"clinic"}, "shared": {"clinic", "sport"}, "arena.laps": {"sport"}}
    for name, pipelines in names.items():
        few, _ = definitions_of_tables([name], settings)
        assert (name, set(few) - {"quoted"}) == (name, pipelines)


def test_names_in_hints_and_of_subqueries_are_no_tables_of_the_lake() -> None:
    query = (
        "WITH laps AS (SELECT * FROM Clinic.beats) SELECT /*+ BROADCAST(rare) */ * FROM laps JOIN shared JOIN shared"
    )
    assert sorted(shell.table_names(query)) == ["Clinic.beats", "shared"]


def test_what_a_query_does_not_name_may_be_damaged(settings: Settings) -> None:
    define(settings, "torn", "bronze: [")
    log = Path(settings.lake, "sport", "bronze", "shared", "_delta_log")
    for entry in log.iterdir():
        entry.write_text("{")
    done = ask(settings, "SELECT pipeline FROM clinic.shared")
    assert (done.exit_code, json.loads(done.stdout), done.stderr) == (0, [{"pipeline": "clinic"}], "")
    assert ask(settings, "SELECT pipeline FROM sport.shared").exit_code != 0


def test_a_definition_with_a_mistake_that_may_have_the_table_is_named(settings: Settings) -> None:
    define(settings, "torn", "bronze: [laps")
    done = ask(settings, "SELECT pipeline FROM laps")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [{"pipeline": "sport"}])
    assert done.stderr.startswith("warning: the tables of torn are unknown")
    assert ask(settings, "SELECT pipeline FROM pupils").stderr == ""


def test_all_definitions_with_mistakes_are_named_where_a_table_is_unknown(settings: Settings) -> None:
    define(settings, "torn", "bronze: [")
    done = ask(settings, "SELECT * FROM laptimes")
    assert done.exit_code != 0
    assert "warning: the tables of torn are unknown" in done.stderr
    with pytest.raises(QueryError) as refusal:
        api.sql("SELECT * FROM laptimes", settings)
    assert any("torn" in note for note in refusal.value.__notes__)


def test_a_definition_that_cannot_be_read_may_have_any_table(settings: Settings) -> None:
    define(settings, "foreign", "")
    (settings.pipelines / "foreign" / "pipeline.yaml").write_bytes(b"name: \xff\xfe")
    done = ask(settings, "SELECT pipeline FROM laps")
    assert json.loads(done.stdout) == [{"pipeline": "sport"}]
    assert "warning: the tables of foreign are unknown" in done.stderr
