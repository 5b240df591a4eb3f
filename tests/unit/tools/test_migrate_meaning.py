"""`sluicegate import`: whether what is not imported changes the meaning of tables, and the exit code for that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluicegate.cli.app import app
from sluicegate.errors import SluicegateError
from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import Imported, create

pytestmark = pytest.mark.unit

RAW = "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('s3://b/raw', format => 'json');\n"
PYTHON = """import dlt
from pyspark.sql import functions as F

@dlt.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("s3://b/raw")

"""


def imported(folder: Path, text: str, file: str = "source.sql") -> Imported:
    (folder / file).write_text(text)
    return create(folder / file, "mine", Settings.of(str(folder / "lake"), str(folder), folder / "pipelines"))


def lines_by_meaning(made: Imported) -> dict[bool, list[int]]:
    """Lines of what is not imported: first those that change the meaning, then the others."""
    return {
        changes: [remark.line for remark in made.remarks if remark.changes_meaning == changes]
        for changes in (True, False)
    }


def exit_code(folder: Path, text: str, *options: str, file: str = "source.sql") -> tuple[int, str]:
    (folder / file).write_text(text)
    done = CliRunner().invoke(app, ["import", str(folder / file), "--pipelines", str(folder / "pipelines"), *options])
    if isinstance(done.exception, SluicegateError):
        return done.exception.exit_code, done.output
    return done.exit_code, done.output


TABLE = "CREATE STREAMING TABLE t\n"
QUERY = "\nAS SELECT id, mail FROM STREAM(raw)"
CHANGES = "CREATE STREAMING TABLE t;\nCREATE FLOW f AS AUTO CDC INTO t FROM STREAM(raw) KEYS (id)\n{}\nSEQUENCE BY seq"


def line_of(text: str, part: str) -> int:
    """Line of a part of a text, counted from 1."""
    return text.count("\n", 0, text.index(part)) + 1


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        (f"{TABLE}WITH ROW FILTER hidden ON (id){QUERY}", "WITH ROW"),
        (f"{TABLE}USING DELTA ROW FILTER hidden ON (id){QUERY}", "ROW FILTER"),
        (f"{TABLE}(id INT,\nmail STRING COMMENT 'x' MASK hide){QUERY}", "MASK"),
        (f"{TABLE}(id INT DEFAULT 0, mail STRING){QUERY}", "DEFAULT"),
        (f"{TABLE}(id INT, mail STRING,\nCONSTRAINT k PRIMARY KEY (id)){QUERY}", "CONSTRAINT"),
        (f"{TABLE}(id INT, mail STRING,\nPRIMARY KEY (id)){QUERY}", "PRIMARY"),
        (f"{TABLE}(id INT PRIMARY KEY, mail STRING){QUERY}", "PRIMARY"),
        (f"{TABLE}DEFAULT COLLATION UTF8_LCASE{QUERY}", "DEFAULT"),
        (CHANGES.format("APPLY AS TRUNCATE WHEN op = 'T'"), "APPLY AS TRUNCATE"),
        (CHANGES.replace("TABLE t", "TABLE t (id INT NOT NULL)").format(""), "NOT NULL"),
        ("ALTER TABLE raw SET ROW FILTER hidden ON (id)", "ALTER"),
        ("DELETE FROM raw WHERE id = 1", "DELETE"),
        ("SET spark.sql.ansi.enabled = false", "SET"),
        ("SET TIME ZONE 'UTC'", "SET"),
        ("SET TIMEZONE = LOCAL", "SET"),
        ("SET ANSI_MODE = false", "SET"),
        ("USE SCHEMA silver", "USE"),
    ],
)
def test_what_changes_the_meaning_is_told_by_line_and_exit_code(tmp_path: Path, statement: str, part: str) -> None:
    made = imported(tmp_path, RAW + statement)
    assert (made.error, made.draft.missing) == (None, {})
    assert lines_by_meaning(made)[True] == [line_of(RAW + statement, part)]
    code, output = exit_code(tmp_path, RAW + statement, "--name", "again")
    assert (code, "pipeline.yaml is valid" in output, "changes the meaning" in output) == (3, False, True)
    assert "changes the meaning" in (made.folder / "pipeline.yaml").read_text()


@pytest.mark.parametrize(
    "statement",
    [
        f"{TABLE}PARTITIONED BY (id) TBLPROPERTIES ('quality' = 'silver'){QUERY}",
        f"{TABLE}(id INT COMMENT 'the key', mail STRING) CLUSTER BY (row) SCHEDULE EVERY 1 HOUR{QUERY}",
        "SET pipelines.x = 1",
        "SELECT count(*) FROM raw",
        "DESCRIBE raw",
    ],
)
def test_what_keeps_the_meaning_is_told_and_the_import_is_whole(tmp_path: Path, statement: str) -> None:
    made = imported(tmp_path, RAW + statement)
    assert lines_by_meaning(made)[True] == []
    assert lines_by_meaning(made)[False]
    code, output = exit_code(tmp_path, RAW + statement, "--name", "again", "--json")
    facts: dict[str, Any] = json.loads(output)
    assert (code, {left["changes_meaning"] for left in facts["left"]}) == (0, {False})


DECLARED = "@dlt.table({})\ndef t():\n    return dlt.read_stream('raw')\n"


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        (DECLARED.format("table_properties={}, cluster_by=['id'], partition_cols=['id']"), False),
        (DECLARED.format("row_filter='ROW FILTER hidden ON (id)'"), True),
        (DECLARED.format("schema=StructType([])"), True),
        (DECLARED.format("spark_conf={'spark.sql.ansi.enabled': 'false'}"), True),
        ("dlt.create_streaming_table('t')\ndlt.apply_changes('t', 'raw', ['id'], 'at', apply_as_truncates='x')", True),
        (
            "dlt.create_streaming_table('t')\ndlt.apply_changes('t', 'raw', ['id'], 'at', apply_as_delete_when='x')",
            True,
        ),
        ("spark.conf.set('spark.sql.ansi.enabled', 'false')", True),
        ("def settings():\n    spark.conf.set('x', 'y')", True),
        ("for name in ['a']:\n    helpers.declare(name)", True),
        ("print('x')", False),
        ("if DEBUG:\n    dbutils.widgets.text('x', 'y')", False),
        ("def unused():\n    helpers.declare('x')", False),
        ("# MAGIC %run ./helpers", True),
        ("# MAGIC %pip install x", False),
    ],
)
def test_python_that_may_change_tables_is_told_apart(tmp_path: Path, code: str, changes: bool) -> None:
    made = imported(tmp_path, PYTHON + code, "source.py")
    assert made.draft.missing == {}
    assert [remark.changes_meaning for remark in made.remarks if remark.line > PYTHON.count("\n")].count(changes) >= 1
    assert made.is_complete is not changes


def test_not_null_stops_the_run_as_it_did(tmp_path: Path) -> None:
    columns = "id INT NOT NULL COMMENT 'x', `the mail` STRING NOT NULL, CONSTRAINT c EXPECT (ID IS not NULL)"
    made = imported(tmp_path, f"{RAW}CREATE STREAMING TABLE t ({columns}) AS SELECT id, `the mail` FROM STREAM(raw)")
    assert made.draft.silver["t"]["expectations"] == {
        "c": {"expect": "ID IS not NULL"}, "not_null_id": {"expect_or_fail": "id IS NOT NULL"},
        "not_null_the_mail": {"expect_or_fail": "`the mail` IS NOT NULL"},
    }  # fmt: skip
    assert made.is_complete


def test_a_rule_that_drops_the_rows_of_a_not_null_is_enough(tmp_path: Path) -> None:
    columns = "id INT NOT NULL, CONSTRAINT c EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW"
    made = imported(tmp_path, f"{RAW}CREATE STREAMING TABLE t ({columns}) AS SELECT id FROM STREAM(raw)")
    assert made.draft.silver["t"]["expectations"] == {"c": {"expect_or_drop": "id IS NOT NULL"}}


@pytest.mark.parametrize("statement", ["", "SELECT 1", "CREATE STREAMING TABLE t AS SELECT a,, b FROM STREAM(x)"])
def test_an_import_of_nothing_has_an_exit_code_of_its_own(tmp_path: Path, statement: str) -> None:
    code, _ = exit_code(tmp_path, statement)
    assert (code, list((tmp_path / "pipelines").glob("*"))) == (4, [])


def test_a_definition_that_does_not_load_is_written(tmp_path: Path) -> None:
    code, _ = exit_code(tmp_path, f"{RAW}CREATE STREAMING TABLE t AS SELECT id + 1 FROM STREAM(raw)")
    assert (code, (tmp_path / "pipelines/source/t.sql").is_file()) == (2, True)


# --- the time of the run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "current_date()", "current_date", "now()", "current_timestamp() - INTERVAL 7 DAYS", "rand()", "uuid()",
        "unix_timestamp()", "to_date('today')", "CAST('now' AS TIMESTAMP)", "current_user()",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rule", ["", " (CONSTRAINT c EXPECT (id > 0) ON VIOLATION DROP ROW)"])
def test_a_view_that_depends_on_its_time_is_made_anew_by_each_run(tmp_path: Path, expression: str, rule: str) -> None:
    views = f"""CREATE MATERIALIZED VIEW shown{rule} AS SELECT id, {expression} AS x FROM raw;
    CREATE MATERIALIZED VIEW filtered{rule} AS SELECT id FROM raw WHERE coalesce({expression}, at) <= at;
    CREATE MATERIALIZED VIEW reader AS SELECT id FROM filtered"""
    made = imported(tmp_path, RAW + views)
    assert (list(made.draft.gold), list(made.draft.silver)) == (["shown", "filtered", "reader"], [])
    assert expression in made.draft.queries["shown"]


def test_a_sample_is_taken_anew_by_each_run(tmp_path: Path) -> None:
    made = imported(tmp_path, f"{RAW}CREATE MATERIALIZED VIEW v AS SELECT id FROM raw TABLESAMPLE (10 PERCENT)")
    assert (list(made.draft.gold), made.error) == (["v"], None)


def test_a_stream_keeps_the_time_of_a_record(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE t AS SELECT id, now() AS x FROM STREAM(raw);
    CREATE TEMPORARY VIEW v AS SELECT id, now() AS x FROM STREAM(raw);
    CREATE STREAMING TABLE u; APPLY CHANGES INTO u FROM STREAM(v) KEYS (id) SEQUENCE BY x"""
    made = imported(tmp_path, text)
    assert (list(made.draft.silver), made.draft.gold, made.error) == (["t", "v", "u"], {}, None)
    assert made.is_complete


@pytest.mark.parametrize("reader", ["SELECT id FROM STREAM(v)", "SELECT r.id FROM STREAM(raw) r JOIN v ON r.id = v.id"])
def test_a_view_that_a_stream_needs_is_told_where_it_depends_on_its_time(tmp_path: Path, reader: str) -> None:
    views = f"CREATE VIEW v AS SELECT id FROM raw WHERE at > now();\nCREATE STREAMING TABLE t AS {reader}"
    made = imported(tmp_path, RAW + views)
    assert (list(made.draft.silver), made.error, lines_by_meaning(made)[True]) == (["v", "t"], None, [2])


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        ("SELECT id, count(*) AS n FROM STREAM(raw) GROUP BY id", False),
        ("SELECT DISTINCT id FROM STREAM(raw)", False),
        ("SELECT id, uuid() AS x FROM STREAM(raw)", True),
        ("SELECT id FROM STREAM(raw) WHERE at > (SELECT max(at) FROM raw)", True),
        ("SELECT r.id, count(p.id) AS n FROM STREAM(raw) r JOIN places p ON r.id = p.id GROUP BY r.id", True),
    ],
)
def test_a_stream_that_becomes_gold_keeps_its_rows_unless_they_depend_on_more(
    tmp_path: Path, query: str, changes: bool
) -> None:
    made = imported(tmp_path, f"{RAW}{RAW.replace('raw', 'places')}CREATE STREAMING TABLE t AS {query}")
    assert (list(made.draft.gold), made.is_complete) == (["t"], not changes)


# --- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    ["read_files('s3://b/raw', format => 'csv')", "json.`s3://b/raw`"],
)
@pytest.mark.parametrize("select", ["*", "id, upper(name) AS name"])
def test_files_that_a_batch_reads_may_be_overwritten(tmp_path: Path, read: str, select: str) -> None:
    made = imported(tmp_path, f"-- one\nCREATE MATERIALIZED VIEW raw AS SELECT {select} FROM {read}")
    [fields] = made.draft.bronze.values()
    assert (fields["allowOverwrites"], lines_by_meaning(made)[True]) == (True, [2])


@pytest.mark.parametrize(
    "reader", ["format('json').load('s3://b/x')", "json('s3://b/x')", "json('s3://b/x').select('a')"]
)
def test_files_that_a_batch_of_python_reads_may_be_overwritten(tmp_path: Path, reader: str) -> None:
    made = imported(tmp_path, f"import dlt\n@dlt.table\ndef t():\n    return spark.read.{reader}\n", "source.py")
    [fields] = made.draft.bronze.values()
    assert (fields["allowOverwrites"], lines_by_meaning(made)[True]) == (True, [4])


@pytest.mark.parametrize("explicit", ["true", "false"])
def test_overwrites_are_as_the_source_says(tmp_path: Path, explicit: str) -> None:
    files = f"read_files('s3://b/raw', format => 'csv', allowOverwrites => {explicit})"
    made = imported(tmp_path, f"CREATE MATERIALIZED VIEW raw AS SELECT * FROM {files}")
    assert made.draft.bronze["raw"]["allowOverwrites"] is (explicit == "true")


@pytest.mark.parametrize(
    ("chain", "options"),
    [
        ("spark.readStream.option('readChangeFeed', 'true').option('startingVersion', 5).table('a.b')",
         {"readChangeFeed": True, "startingVersion": True}),
        ("spark.readStream.option('skipChangeCommits', True).table('a.b').select('id')", {"skipChangeCommits": True}),
        ("spark.read.options(versionAsOf=3).table('a.b')", {"versionAsOf": True}),
        ("spark.read.format('delta').option('timestampAsOf', '2026-01-01').load('s3://b/x')", {"timestampAsOf": True}),
        ("spark.readStream.format('delta').option('readChangeFeed', True).load('s3://b/x')", {"readChangeFeed": True}),
        ("spark.readStream.option('maxFilesPerTrigger', 9).table('a.b')", {"maxFilesPerTrigger": False}),
        ("spark.readStream.format('delta').option('maxBytesPerTrigger', '1g').load('s3://b/x')",
         {"maxBytesPerTrigger": False}),
        ("dlt.read_stream('raw').join(spark.read.option('versionAsOf', 3).table('a.b'), 'id')", {"versionAsOf": True}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("declaration", ["@dlt.table", "dlt.create_streaming_table('u')\n@dlt.append_flow(target='u')"])
def test_options_of_a_tables_reader_are_told_by_line(
    tmp_path: Path, chain: str, options: dict[str, bool], declaration: str
) -> None:
    text = f"{PYTHON}{declaration}\ndef t():\n    return {chain}\n"
    made = imported(tmp_path, text, "source.py")
    assert options == {
        remark.subject.split()[1]: remark.changes_meaning
        for remark in made.remarks
        if remark.subject.startswith("option ") and remark.line == line_of(text, chain)
    }


@pytest.mark.parametrize("delay", ["10 MINUTES", "'10' minute", "'10 minutes'", "1 HOUR"])
@pytest.mark.parametrize(
    ("query", "written", "changes"),
    [
        ("SELECT id FROM STREAM(raw) {} WHERE id > 1", "SELECT id FROM STREAM(raw) WHERE id > 1", False),
        ("SELECT r.id FROM STREAM(raw) {} AS r", "SELECT r.id FROM STREAM(raw) AS r", False),
        ("SELECT id, max(n) AS n FROM STREAM raw {} GROUP BY id", "SELECT id, max(n) AS n FROM raw GROUP BY id", True),
        ("SELECT DISTINCT id FROM STREAM(raw) {}", "SELECT DISTINCT id FROM raw", True),
    ],
)  # fmt: skip
def test_a_watermark_of_a_stream_goes_and_is_told(
    tmp_path: Path, delay: str, query: str, written: str, changes: bool
) -> None:
    text = f"{RAW}CREATE STREAMING TABLE t AS {query.format(f'WATERMARK at DELAY OF INTERVAL {delay}')}"
    made = imported(tmp_path, text)
    assert " ".join(made.draft.queries["t"].split()) == written
    assert (made.error, made.is_complete) == (None, not changes)
    assert any("DELAY OF" in remark.subject for remark in made.remarks)


@pytest.mark.parametrize(
    "query", ["SELECT id FROM STREAM(raw) {}", "SELECT r.id FROM STREAM(raw) {} AS r WHERE id > 1"]
)
def test_options_behind_a_stream_go_and_are_told(tmp_path: Path, query: str) -> None:
    text = f"{RAW}CREATE STREAMING TABLE t AS {query.format('WITH (SKIPCHANGECOMMITS)')}"
    made = imported(tmp_path, text)
    assert " ".join(made.draft.queries["t"].split()) == query.replace("{} ", "").replace(" {}", "")
    assert (made.error, lines_by_meaning(made)[True]) == (None, [2])


@pytest.mark.parametrize("version", ["VERSION AS OF 3", "TIMESTAMP AS OF '2026-01-01'", "@v3"])
def test_a_version_of_a_table_is_not_taken_for_its_rows_of_now(tmp_path: Path, version: str) -> None:
    made = imported(tmp_path, f"{RAW}CREATE MATERIALIZED VIEW v AS SELECT id FROM a.b {version}")
    assert made.draft.missing == {"v": 2}


def test_a_query_that_reads_no_table_is_told_as_such(tmp_path: Path) -> None:
    made = imported(tmp_path, f"{RAW}CREATE MATERIALIZED VIEW days AS SELECT explode(sequence(1, 9)) AS n")
    assert [(remark.line, remark.subject) for remark in made.remarks] == [(2, "days")]
    assert made.error is not None


# --- columns that are there or not -----------------------------------------------------------------------------------

KNOWN = "@dlt.table\ndef known():\n    return dlt.read_stream('raw').select('id', 'Amount')\n\n"


@pytest.mark.parametrize(
    ("chain", "items"),
    [
        ("read_stream('known').withColumn('amount', F.lit(1))", "* EXCEPT (amount), 1 AS amount"),
        ("read_stream('known').withColumn('n', F.lit(1))", "*, 1 AS n"),
        ("read_stream('known').drop('AMOUNT')", "* EXCEPT (AMOUNT)"),
        ("read_stream('known').drop('n', '_rescued_data')", "*"),
        ("read_stream('known').drop('n', 'id').withColumn('amount', F.lit(1))", "* EXCEPT (id, amount), 1 AS amount"),
        ("read_stream('raw').withColumn('n', F.col('n') + 1)", "* EXCEPT (n), (n + 1) AS n"),
        ("read_stream('raw').drop('_rescued_data')", "* EXCEPT (_rescued_data)"),
    ],
)
def test_a_column_is_replaced_or_dropped_where_it_is_there(tmp_path: Path, chain: str, items: str) -> None:
    made = imported(tmp_path, f"{PYTHON}{KNOWN}@dlt.table\ndef t():\n    return dlt.{chain}\n", "source.py")
    assert made.draft.queries["t"].splitlines()[0] == f"SELECT {items}"
    assert (made.remarks, made.error) == ([], None)


@pytest.mark.parametrize(
    ("chain", "items"),
    [
        ("read_stream('raw').withColumn('n', F.lit(1))", "*, 1 AS n"),
        ("read_stream('raw').drop('n')", "* EXCEPT (n)"),
        ("read_stream('copy').drop('_rescued_data')", "* EXCEPT (_rescued_data)"),
        ("read_stream('known').join(dlt.read('raw'), 'id').withColumn('n', F.lit(1))", "*, 1 AS n"),
    ],
)
def test_a_column_of_which_nothing_is_known_is_told_by_line(tmp_path: Path, chain: str, items: str) -> None:
    copy = f"{KNOWN}@dlt.table\ndef copy():\n    return dlt.read_stream('raw').filter('id > 1')\n\n"
    text = f"{PYTHON}{copy}@dlt.table\ndef t():\n    return dlt.{chain}\n"
    made = imported(tmp_path, text, "source.py")
    assert made.draft.queries["t"].splitlines()[0] == f"SELECT {items}"
    assert lines_by_meaning(made)[True] == [line_of(text, f"return dlt.{chain}")]


@pytest.mark.parametrize(
    "clauses",
    [
        "KEYS (after.id) SEQUENCE BY ts",
        "KEYS (id) SEQUENCE BY source.ts_ms",
        "KEYS (id) SEQUENCE BY ts COLUMNS after.id, ts",
        "KEYS (id) SEQUENCE BY ts COLUMNS * EXCEPT (after.id)",
    ],
)
def test_changes_by_a_field_of_a_column_are_left(tmp_path: Path, clauses: str) -> None:
    text = f"{RAW}CREATE STREAMING TABLE t;\nAPPLY CHANGES INTO t FROM STREAM(raw) {clauses}"
    made = imported(tmp_path, text)
    assert (made.draft.silver, made.draft.missing) == ({}, {"t": 2})
    assert lines_by_meaning(made)[True] == [2, 3]


@pytest.mark.parametrize("arguments", ["['after.id'], 'ts'", "['id'], 'ts', except_column_list=['after.id']"])
def test_changes_of_python_by_a_field_of_a_column_are_left(tmp_path: Path, arguments: str) -> None:
    text = f"{PYTHON}dlt.create_streaming_table('t')\ndlt.apply_changes('t', 'raw', {arguments})"
    assert imported(tmp_path, text, "source.py").draft.missing == {"t": 8}


TIMED = "(CONSTRAINT c EXPECT (at > current_date() - INTERVAL 30 DAYS) ON VIOLATION DROP ROW)"


def test_a_view_whose_rule_depends_on_its_time_is_made_anew_by_each_run(tmp_path: Path) -> None:
    text = f"{RAW}CREATE MATERIALIZED VIEW v {TIMED} AS SELECT id, at FROM raw"
    made = imported(tmp_path, text)
    assert (list(made.draft.gold), made.draft.silver, made.error) == (["v"], {}, None)
    assert made.is_complete


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE MATERIALIZED VIEW v {TIMED} AS SELECT id, at FROM raw;\n"
        "CREATE STREAMING TABLE t AS SELECT id FROM STREAM(v)",
        f"CREATE VIEW v {TIMED.replace(' ON VIOLATION DROP ROW', '')}"
        " AS SELECT * FROM read_files('s3://b/x', format => 'csv', allowOverwrites => 'false')",
    ],
)
def test_a_rule_that_depends_on_its_time_is_told_where_each_record_is_evaluated_once(tmp_path: Path, text: str) -> None:
    made = imported(tmp_path, RAW + text)
    assert (made.draft.gold, made.error) == ({}, None)
    assert "the rule c of v" in [remark.subject for remark in made.remarks if remark.changes_meaning]


def test_a_rule_of_a_stream_may_depend_on_the_time(tmp_path: Path) -> None:
    made = imported(tmp_path, f"{RAW}CREATE STREAMING TABLE t {TIMED} AS SELECT id, at FROM STREAM(raw)")
    assert (list(made.draft.silver), made.is_complete) == (["t"], True)


@pytest.mark.parametrize(
    ("path", "option", "subject"),
    [
        ("/raw/*.csv", "pathGlobFilter => '2024*'", "option pathGlobFilter of x"),
        ("/raw", "fileNamePattern => '*.csv', pathGlobFilter => '2024*'", "option pathGlobFilter of x"),
        ("/raw", "recursiveFileLookup => false", "option recursiveFileLookup of x"),
        ("/raw", "rescuedDataColumn => 'rest'", "option rescuedDataColumn of x"),
        ("/*/raw/", "header => true", "path s3://b/*/raw/ of x"),
        ("/{a,b}/raw/*.csv", "header => true", "path s3://b/{a,b}/raw/*.csv of x"),
    ],
)
def test_files_that_would_be_others_are_told(tmp_path: Path, path: str, option: str, subject: str) -> None:
    read = f"STREAM read_files('s3://b{path}', format => 'csv', {option})"
    made = imported(tmp_path, f"CREATE STREAMING TABLE x AS SELECT * FROM {read}")
    assert [remark.subject for remark in made.remarks if remark.changes_meaning] == [subject]
    assert (list(made.draft.bronze), made.error) == (["x"], None)


def test_files_that_stay_the_same_are_not_told(tmp_path: Path) -> None:
    options = "recursiveFileLookup => true, rescuedDataColumn => '_rescued_data'"
    read = f"STREAM read_files('s3://b/raw/2024*.csv', format => 'csv', {options})"
    made = imported(tmp_path, f"CREATE STREAMING TABLE x AS SELECT * FROM {read}")
    assert (made.draft.bronze["x"]["pathGlobFilter"], made.is_complete) == ("2024*.csv", True)


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("from helpers import declare\nx = declare('orders')", True),
        ("from helpers import declare\nys = [declare(name) for name in ['a']]", True),
        ("import ours.helpers as h\nx = h.declare('orders')", True),
        ("import ours.helpers\nx = ours.helpers.declare('orders')", True),
        ("from .helpers import bronze\n@bronze('orders')\ndef orders():\n    return 1", True),
        ("import json\nx = json.loads('[]')", False),
        ("from pyspark.sql.types import StructType\nx = StructType()", False),
        ("from ours import logger\nlogger.info('x')", False),
        ("def helper():\n    return 1\nx = helper()", False),
    ],
)
def test_a_call_into_an_imported_module_may_declare_tables(tmp_path: Path, code: str, changes: bool) -> None:
    made = imported(tmp_path, PYTHON + code, "source.py")
    assert made.remarks
    assert made.is_complete is not changes


@pytest.mark.parametrize("arguments", ["inv='id > 3', name='active'", "'active', inv='id > 3'", "'active', 'id > 3'"])
def test_a_rule_of_python_is_read_by_the_names_of_its_arguments(tmp_path: Path, arguments: str) -> None:
    text = f"{PYTHON}@dlt.table\n@dlt.expect_or_drop({arguments})\ndef t():\n    return dlt.read_stream('raw')\n"
    made = imported(tmp_path, text, "source.py")
    assert made.draft.silver["t"]["expectations"] == {"active": {"expect_or_drop": "id > 3"}}


@pytest.mark.parametrize(
    ("chain", "items"),
    [
        ('drop("n").withColumn("n", F.lit(1))', "* EXCEPT (n), 1 AS n"),
        ('drop("n").drop("n", "m")', "* EXCEPT (n, m)"),
        ('drop("n").withColumn("n", F.upper("n"))', None),
        ('drop("n").withColumn("m", F.upper("n"))', None),
    ],
)
@pytest.mark.parametrize("known", ['.select("id", "n", "m")', ""])
def test_a_dropped_column_is_dropped_once_and_read_no_more(
    tmp_path: Path, chain: str, items: str | None, known: str
) -> None:
    text = f"""{PYTHON}@dlt.table
def s():
    return dlt.read_stream("raw"){known}

@dlt.table
def t():
    return dlt.read_stream("s").{chain}
"""
    made = imported(tmp_path, text, "source.py")
    query = made.draft.queries.get("t", "")
    assert query == (f"SELECT {items}\nFROM STREAM(s)" if items else "")
    assert ("withColumn of n" in [remark.subject for remark in made.remarks]) is False


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAMING TABLE t;\nCREATE FLOW f AS INSERT INTO t BY NAME",
        "CREATE STREAMING TABLE t;\nAPPLY CHANGES INTO t FROM",
    ],
)
def test_a_statement_that_ends_before_its_query_is_left(tmp_path: Path, text: str) -> None:
    made = imported(tmp_path, f"{RAW}{text};")
    assert "t" in made.draft.missing
    assert "the query is missing" in [remark.reason for remark in made.remarks if remark.line == 3]


def test_columns_that_would_rename_those_of_the_query_are_told_so(tmp_path: Path) -> None:
    made = imported(tmp_path, f"{RAW}CREATE MATERIALIZED VIEW v (a, b) AS SELECT id, amount FROM raw")
    reasons = {remark.subject: remark.reason for remark in made.remarks if remark.changes_meaning}
    assert ["AS a" in reasons["v.a"], "AS b" in reasons["v.b"]] == [True, True]
