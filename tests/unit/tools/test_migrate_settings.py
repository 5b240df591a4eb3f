"""`sluicegate import`: settings of a source, and tables that a stream joins."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate import definition
from sluicegate.cli.app import app
from sluicegate.definition import Pipeline
from sluicegate.errors import UserError
from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import Imported, create

pytestmark = pytest.mark.unit

PYTHON = """import dlt
SOURCE = spark.conf.get("shop.source"{default})
SCHEMA = dbutils.widgets.get("schema")

@dlt.table(name=f"{{SCHEMA}}.raw")
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load(f"{{SOURCE}}/orders")
"""
SQL = """CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('${shop.source}/orders', format => 'json');
CREATE STREAMING TABLE large AS SELECT id FROM STREAM(raw) WHERE n > ${least};
"""


def imported(folder: Path, text: str, file: str, **given: str) -> tuple[Imported, Pipeline]:
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")
    (folder / file).write_text(text)
    made = create(folder / file, "mine", settings, {name.replace("__", "."): value for name, value in given.items()})
    return made, definition.load("mine", settings)


def test_a_setting_of_python_is_what_was_given_or_its_default(tmp_path: Path) -> None:
    made, pipeline = imported(
        tmp_path, PYTHON.format(default=', "s3://shop"'), "source.py", schema="bronze", shop__source="s3://other"
    )
    assert pipeline.bronze["raw"].path == "s3://other/orders"
    assert (made.draft.imported, made.remarks) == (["bronze.raw"], [])


def test_a_default_is_written_out_and_named(tmp_path: Path) -> None:
    made, pipeline = imported(tmp_path, PYTHON.format(default=', "s3://shop"'), "source.py", schema="bronze")
    assert pipeline.bronze["raw"].path == "s3://shop/orders"
    [left] = made.remarks
    assert (left.line, left.subject) == (2, "spark.conf shop.source")
    assert left.reason == "its default 's3://shop' is written out; --set shop.source=… sets another value"


def test_a_setting_without_a_value_is_named_with_the_option_that_gives_it(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(PYTHON.format(default=""))
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines")
    with pytest.raises(Exception, match="declares no table that can be imported") as caught:
        create(tmp_path / "source.py", "mine", settings)
    said = caught.value.for_people()  # type: ignore[attr-defined]
    assert "spark.conf shop.source has no value" in said
    assert "the widget schema has no value: set it with --set schema=…" in said


def test_settings_of_sql_are_filled_in(tmp_path: Path) -> None:
    made, pipeline = imported(tmp_path, SQL, "source.sql", shop__source="s3://shop", least="5")
    assert pipeline.bronze["raw"].path == "s3://shop/orders"
    assert "n > 5" in made.draft.queries["large"]
    assert made.remarks == []


def test_a_statement_of_sql_whose_setting_has_no_value_is_left_alone(tmp_path: Path) -> None:
    made, _ = imported(tmp_path, SQL, "source.sql", shop__source="s3://shop")
    assert made.draft.missing == {"large": 2}
    assert [one.reason for one in made.remarks] == ["the setting least has no value: set it with --set least=…"]


def test_the_command_takes_values_and_refuses_a_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.sql").write_text(SQL)
    command = ["import", "shop.sql", "--set", "shop.source=s3://shop/a=b", "--set", "least=5"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert 'path: "s3://shop/a=b/orders"' in Path("pipelines/shop/pipeline.yaml").read_text()
    wrong = CliRunner().invoke(app, ["import", "shop.sql", "--name", "other", "--set", "least"])
    assert "--set least has no value" in str(wrong.exception)


def test_a_setting_in_a_comment_is_none(tmp_path: Path) -> None:
    text = SQL.replace("${least}", "5 -- see ${owner}")
    made, _ = imported(tmp_path, text, "source.sql", shop__source="s3://shop")
    assert made.draft.missing == {}


def test_a_name_that_the_source_does_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="setting sorce"):
        imported(tmp_path, SQL, "source.sql", shop__source="s3://shop", least="5", sorce="x")
    with pytest.raises(UserError, match="setting sorce"):
        imported(tmp_path, PYTHON.format(default=', "s3://shop"'), "source.py", schema="bronze", sorce="x")


def test_a_value_that_breaks_the_sql_is_named_as_a_cause(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not SQL") as caught:
        imported(
            tmp_path,
            SQL.replace("/orders'", "/orders' -- it's fine"),
            "source.sql",
            shop__source="s3://shop",
            least="it's",
        )
    assert "a value of --set" in caught.value.for_people()


# --- tables that a stream joins --------------------------------------------------------------------------------------

STREAM_JOIN = """CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('/v/raw', format => 'json');
CREATE STREAMING TABLE people AS SELECT * FROM STREAM read_files('/v/people', format => 'csv');
CREATE {kind} t AS SELECT r.id, p.name FROM {stream} r LEFT JOIN people p ON r.id = p.id;
"""


def test_rows_of_a_streaming_table_keep_what_they_were_joined_with(tmp_path: Path) -> None:
    text = STREAM_JOIN.format(kind="STREAMING TABLE", stream="STREAM(raw)")
    made, pipeline = imported(tmp_path, text, "source.sql")
    assert pipeline.silver["t"].lookups == {"people": "as_of_run"}
    assert "without `lookups` rows follow changes" in (made.folder / "pipeline.yaml").read_text()


def test_rows_of_a_materialized_view_follow_what_they_are_joined_with(tmp_path: Path) -> None:
    made, pipeline = imported(tmp_path, STREAM_JOIN.format(kind="VIEW", stream="raw"), "source.sql")
    assert "t" in {*pipeline.silver, *pipeline.gold}
    assert "as_of_run" not in (made.folder / "pipeline.yaml").read_text()


def test_flows_of_a_table_keep_what_they_join(tmp_path: Path) -> None:
    text = STREAM_JOIN.format(kind="STREAMING TABLE", stream="STREAM(raw)") + (
        "CREATE STREAMING TABLE u (id STRING, name STRING);\n"
        "CREATE FLOW one AS INSERT INTO u BY NAME SELECT r.id, p.name FROM STREAM(raw) r JOIN people p USING (id);\n"
        "CREATE FLOW two AS INSERT INTO u BY NAME SELECT id, 'x' AS name FROM STREAM(raw);\n"
    )
    _, pipeline = imported(tmp_path, text, "source.sql")
    assert pipeline.silver["u"].lookups == {"people": "as_of_run"}
    assert [*pipeline.silver["u"].flows] == ["one", "two"]


def test_branches_of_a_union_keep_what_they_join(tmp_path: Path) -> None:
    text = STREAM_JOIN.format(kind="STREAMING TABLE", stream="STREAM(raw)") + (
        "CREATE STREAMING TABLE u AS SELECT r.id, p.name FROM STREAM(raw) r JOIN people p ON r.id = p.id\n"
        "UNION ALL SELECT id, 'x' AS name FROM STREAM(raw);\n"
    )
    _, pipeline = imported(tmp_path, text, "source.sql")
    assert pipeline.silver["u"].lookups == {"people": "as_of_run"}
