"""`sluicegate import`: what becomes of sources of Delta Live Tables, and that nothing is left in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sluicegate import definition
from sluicegate.cli.app import app
from sluicegate.console import program
from sluicegate.definition import Pipeline
from sluicegate.errors import UserError
from sluicegate.settings import Settings
from sluicegate.tools.migrate import sql_source
from sluicegate.tools.migrate.create import Imported, create
from sluicegate.tools.migrate.settings_of_source import SourceSettings

pytestmark = pytest.mark.unit


def at(folder: Path) -> Settings:
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def imported(folder: Path, text: str, file: str = "source.sql") -> Imported:
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    return create(folder / file, "mine", at(folder))


def loaded(folder: Path, text: str, file: str = "source.sql") -> tuple[Pipeline, list[str]]:
    """The definition, which has no mistake, and what is left."""
    made = imported(folder, text, file)
    assert made.error is None, made.error.for_people()
    return definition.load("mine", at(folder)), [str(one) for one in made.remarks]


RAW = "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('s3://b/raw', format => 'json');\n"


# --- SQL -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REFRESH STREAMING TABLE raw AS SELECT * FROM STREAM read_files('s3://b/raw', format => 'json')",
        "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM(read_files('s3://b/raw', format => 'json'))",
        "create streaming live table raw as select * from cloud_files('s3://b/raw', 'json')",
        "CREATE OR REFRESH STREAMING LIVE TABLE raw AS SELECT * FROM cloud_files('s3://b/raw', 'json', map())",
        "CREATE MATERIALIZED VIEW raw AS SELECT * FROM read_files('s3://b/raw', format => 'json')",
        "CREATE LIVE TABLE raw AS SELECT * FROM json.`s3://b/raw` -- as read_files does",
    ],
)
def test_files_that_are_read_as_they_are_make_a_bronze_table(tmp_path: Path, text: str) -> None:
    found, left = loaded(tmp_path, text)
    assert (list(found.bronze), found.silver, found.gold) == (["raw"], {}, {})
    streams = "stream" in text.lower()
    assert (found.bronze["raw"].path, found.bronze["raw"].allowOverwrites, left == []) == (
        "s3://b/raw",
        not streams,
        streams,
    )
    assert found.bronze["raw"].inferColumnTypes == ("read_files" in text)


def test_options_of_auto_loader_become_fields(tmp_path: Path) -> None:
    options = {
        "cloudFiles.schemaHints": "id BIGINT", "cloudFiles.maxFilesPerTrigger": "10", "fileNamePattern": "*.json",
        "cloudFiles.includeExistingFiles": "false", "multiLine": "true", "cloudFiles.schemaLocation": "/s",
        "cloudFiles.partitionColumns": "year, month", "mode": "DROPMALFORMED", "cloudFiles.inferColumnTypes": "maybe",
    }  # fmt: skip
    pairs = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    text = f"CREATE STREAMING TABLE raw AS SELECT * FROM cloud_files('s3://b/raw', 'json', map({pairs}))"
    found, left = loaded(tmp_path, text)
    table = found.bronze["raw"]
    assert (table.schemaHints, table.maxFilesPerTrigger, table.pathGlobFilter) == ("id BIGINT", 10, "*.json")
    assert (table.includeExistingFiles, table.options) == (False, {"multiLine": "true"})
    assert table.partitionColumns == ["year", "month"]
    assert [line.split(" of raw")[0] for line in left] == [
        "line 1: option cloudFiles.inferColumnTypes", "line 1: option cloudFiles.schemaLocation", "line 1: option mode",
    ]  # fmt: skip


def test_expressions_over_files_make_a_bronze_and_a_silver_table(tmp_path: Path) -> None:
    text = """CREATE STREAMING TABLE visits (CONSTRAINT ok EXPECT (id > 0) ON VIOLATION DROP ROW)
AS SELECT CAST(id AS INT) AS id, _metadata.file_path AS file, _metadata.file_modification_time
FROM STREAM read_files('/mnt/in/visits', format => 'csv', header => true)"""
    made = imported(tmp_path, text)
    assert list(made.draft.bronze) == ["visits_landed"]
    assert made.draft.bronze["visits_landed"]["dialect"] == "spark"  # by which Auto Loader reads
    assert made.draft.queries["visits"].splitlines()[-1] == "FROM STREAM(visits_landed)"
    assert "source_file AS file" in made.draft.queries["visits"]
    assert "path /mnt/in/visits of visits_landed" in str(made.remarks[0])
    assert made.error is None


def test_a_source_that_says_how_quotes_are_escaped_needs_no_dialect(tmp_path: Path) -> None:
    text = """CREATE STREAMING TABLE v AS SELECT *
FROM STREAM read_files('/mnt/in/visits', format => 'csv', escape => '"')"""
    [fields] = imported(tmp_path, text).draft.bronze.values()
    assert "dialect" not in fields


@pytest.mark.parametrize("read", ["STREAM(LIVE.raw)", "STREAM(raw)", "STREAM raw", "STREAM LIVE.raw"])
def test_a_stream_is_called_by_its_table(tmp_path: Path, read: str) -> None:
    found, left = loaded(tmp_path, f"{RAW}CREATE STREAMING TABLE t AS SELECT id FROM {read} WHERE id > 1")
    assert (found.silver["t"].stream, left) == ("raw", [])


def test_texts_in_a_query_stay_as_they_are(tmp_path: Path) -> None:
    said = "'FROM a.b.raw, FROM x.y.other and STREAM(raw)' AS said"
    text = RAW.replace("TABLE raw", "TABLE b.raw")
    text += f"CREATE STREAMING TABLE t AS SELECT id, {said} FROM STREAM(a.b.raw) JOIN x.y.other USING (id);"
    text += f"CREATE STREAMING TABLE n AS SELECT {said}, count(*) AS n FROM STREAM(a.b.raw)GROUP BY 1"
    made = imported(tmp_path, text)
    assert (
        made.draft.queries["t"].split("SELECT ")[1] == f"id, {said} FROM STREAM(raw) JOIN x_y_other AS other USING (id)"
    )
    assert made.draft.queries["n"] == f"SELECT {said}, count(*) AS n FROM raw GROUP BY 1"


def test_rules_keep_their_fates(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE t (
      CONSTRAINT a EXPECT (id > 0),
      CONSTRAINT `b c` EXPECT (id IS NOT NULL AND (x, 1) IS NOT NULL) ON VIOLATION DROP ROW,
      CONSTRAINT d EXPECT (id < 9) ON VIOLATION FAIL UPDATE,
      CONSTRAINT p PRIMARY KEY (id)
    ) AS SELECT id, x FROM STREAM(raw)"""
    found, left = loaded(tmp_path, text)
    rules = found.silver["t"].expectations
    assert {name: rule.action for name, rule in rules.items()} == {"a": "keep", "b_c": "drop", "d": "fail"}
    assert [line.partition(":")[0] for line in left] == ["line 4", "line 6"]


def test_aggregates_are_gold_and_so_is_what_reads_them(tmp_path: Path) -> None:
    text = f"""{RAW}
    CREATE LIVE TABLE daily AS SELECT day, count(*) AS n FROM LIVE.raw GROUP BY day;
    CREATE MATERIALIZED VIEW top AS WITH x AS (SELECT max(n) AS most FROM LIVE.daily) SELECT most FROM x;
    CREATE STREAMING TABLE windowed AS SELECT id, count(*) AS n FROM STREAM(raw)GROUP BY id;"""
    found, left = loaded(tmp_path, text)
    assert list(found.gold) == ["daily", "top", "windowed"]
    assert found.gold["top"].query.tables == ["daily"]
    assert found.gold["windowed"].query.tables == ["raw"]
    assert [line.partition(":")[0] for line in left] == ["line 5"]


def test_a_materialized_view_of_one_table_follows_record_by_record(tmp_path: Path) -> None:
    found, left = loaded(tmp_path, f"{RAW}CREATE MATERIALIZED VIEW v AS SELECT id, upper(city) AS city FROM raw")
    assert (found.silver["v"].stream, found.silver["v"].reads, left) == ("raw", ["raw"], [])


PLACES = RAW.replace("raw", "places")
JOINED = "SELECT r.id, p.city FROM raw r LEFT JOIN places p ON r.p = p.id"


@pytest.mark.parametrize(
    ("statements", "layer"),
    [
        (f"CREATE MATERIALIZED VIEW v AS {JOINED}", "gold"),
        ("CREATE MATERIALIZED VIEW v AS SELECT id, explode(items) AS item FROM raw", "gold"),
        ("CREATE MATERIALIZED VIEW v AS SELECT id, item FROM raw LATERAL VIEW explode(items) x AS item", "gold"),
        ("CREATE STREAMING TABLE v AS SELECT id, explode(items) AS item FROM STREAM(raw)", "silver"),
        (f"CREATE STREAMING TABLE v AS {JOINED.replace('raw r', 'STREAM(raw) r')}", "silver"),
        (f"CREATE MATERIALIZED VIEW v (CONSTRAINT c EXPECT (id > 0) ON VIOLATION DROP ROW) AS {JOINED}", "silver"),
        (
            f"CREATE VIEW v AS {JOINED}; CREATE STREAMING TABLE t; APPLY CHANGES INTO t FROM STREAM(v) KEYS (id) "
            "SEQUENCE BY id",
            "silver",
        ),
        (f"CREATE VIEW v AS {JOINED}; CREATE STREAMING TABLE t AS SELECT s.id FROM STREAM(raw) s JOIN v ON s.id=v.id",
         "silver"),
    ],
)  # fmt: skip
def test_a_view_that_may_make_several_rows_of_a_record_is_gold_unless_a_stream_or_rules_need_it(
    tmp_path: Path, statements: str, layer: str
) -> None:
    found, _ = loaded(tmp_path, RAW + PLACES + statements)
    assert "v" in getattr(found, layer)
    if "EXPLODE" in statements.upper() and layer == "silver":
        assert found.silver["v"].gives_many_rows


def test_a_view_of_an_aggregate_is_gold_too(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE MATERIALIZED VIEW b AS SELECT id, n FROM a WHERE n > 1;
    CREATE MATERIALIZED VIEW a AS SELECT id, count(*) AS n FROM raw GROUP BY id;"""
    found, left = loaded(tmp_path, text)
    assert (list(found.gold), found.gold["b"].query.tables, left) == (["b", "a"], ["a"], [])


@pytest.mark.parametrize(
    "text",
    [
        "APPLY CHANGES INTO LIVE.t FROM STREAM(LIVE.raw)",
        "CREATE FLOW f AS AUTO CDC INTO t FROM stream(raw)",
        "CREATE STREAMING TABLE t FLOW AUTO CDC FROM STREAM raw",
    ],
)
def test_apply_changes_is_taken_over_with_all_its_clauses_but_truncate(tmp_path: Path, text: str) -> None:
    declared = "" if text.startswith("CREATE STREAMING") else "CREATE OR REFRESH STREAMING TABLE t;"
    clauses = """KEYS (id, `k`) IGNORE NULL UPDATES APPLY AS DELETE WHEN op = 'DELETE' AND x IN (1, 2)
      APPLY AS TRUNCATE WHEN op = 'T' SEQUENCE BY seq COLUMNS * EXCEPT (op, seq) STORED AS SCD TYPE 2
      TRACK HISTORY ON * EXCEPT (city)"""
    found, left = loaded(tmp_path, f"{RAW}{declared}\n{text} {clauses};")
    changes = found.silver["t"].apply_changes
    assert changes is not None
    assert (changes.keys, changes.sequence_by, changes.stored_as_scd_type) == (["id", "k"], "seq", 2)
    assert (changes.apply_as_deletes, changes.ignore_null_updates) == ("op = 'DELETE' AND x IN (1, 2)", True)
    assert (changes.except_column_list, changes.track_history_except_column_list) == (["op", "seq"], ["city"])
    assert len(left) == 1
    assert "TRUNCATE" in left[0]


def test_columns_with_types_are_declared(tmp_path: Path) -> None:
    columns = "id BIGINT NOT NULL COMMENT 'x', d DECIMAL(10, 2), _rescued_data STRING"
    text = f"{RAW}CREATE STREAMING TABLE t ({columns}) AS SELECT id, d FROM STREAM(raw)"
    found, left = loaded(tmp_path, text)
    assert found.silver["t"].declared_columns == {"id": "BIGINT", "d": "DECIMAL(10, 2)"}
    assert found.silver["t"].schemaEvolutionMode == "failOnNewColumns"
    assert len(left) == 1


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SET a = 1", "statement that declares a table"),
        ("USE x", "statement that declares a table"),
        ("CREATE FUNCTION f() RETURNS INT RETURN 1", "CREATE FUNCTION"),
        ("CREATE FLOW f AS INSERT INTO raw BY NAME SELECT * FROM STREAM(y)", "silver table here"),
        ("CREATE FLOW f AS INSERT INTO raw SELECT * FROM STREAM(y)", "write BY NAME"),
        ("CREATE FLOW f AS COPY INTO raw", "neither inserts rows"),
        ("CREATE STREAMING TABLE t", "no imported flow writes to this table"),
        ("CREATE STREAMING TABLE t AS", "no imported flow writes to this table"),
        ("CREATE STREAMING TABLE t AS SELECT FROM", "t"),
        ("CREATE LIVE TABLE t AS SELECT * FROM (SELECT", "Expecting )"),
        ("APPLY CHANGES INTO t FROM STREAM(raw) KEYS (id) SEQUENCE BY struct(a, b)", "column"),
        ("APPLY CHANGES INTO t FROM STREAM(raw) KEYS (id)", "KEYS"),
        ("APPLY CHANGES INTO t FROM STREAM(raw) KEYS (id) WHATEVER", "WHATEVER"),
        ("APPLY CHANGES INTO t FROM STREAM(raw) KEYS (id) STORED AS SCD TYPE two", "neither 1 nor 2"),
        ("CREATE STREAMING TABLE t AS SELECT _metadata.file_size FROM STREAM read_files('/x')", "_metadata.file_size"),
        ("CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files(p)", "string literal"),
        ("CREATE", ""),
    ],
)
def test_what_is_left_is_told_with_its_line(tmp_path: Path, statement: str, said: str) -> None:
    made = imported(tmp_path, f"{RAW}-- a comment\n{statement};\n")
    assert made.remarks
    assert {one.line for one in made.remarks} == {3}
    assert said in str(made.remarks[0])
    assert f"(line {made.remarks[0].line})" in (made.folder / "pipeline.yaml").read_text()


def test_a_query_that_cannot_be_read_is_told_with_its_own_line(tmp_path: Path) -> None:
    made = imported(tmp_path, f"{RAW}CREATE STREAMING TABLE t\nCOMMENT 'x'\nAS SELECT a,\n  b,,\n  c FROM STREAM(raw)")
    assert [(one.line, one.subject) for one in made.remarks] == [(5, "the query of t")]


@pytest.mark.parametrize(("file", "mark"), [("source.py", "#"), ("source.sql", "--")])
def test_cells_of_a_notebook_in_another_language_are_told(tmp_path: Path, file: str, mark: str) -> None:
    cells = f"{mark} Databricks notebook source\n{mark} MAGIC %md about\n{mark} MAGIC %scala\n{mark} MAGIC val x = 1\n"
    made = imported(tmp_path, cells + (RAW if file.endswith("sql") else HEAD), file)
    assert [(one.line, one.subject) for one in made.remarks] == [(3, "a cell of %scala")]


def test_a_table_that_is_made_elsewhere_is_a_todo(tmp_path: Path) -> None:
    text = f"{RAW}CREATE MATERIALIZED VIEW v AS SELECT r.id, p.city FROM raw r JOIN other.places p ON r.p = p.id"
    found, left = loaded(tmp_path, text)
    assert found.bronze["other_places"].format == "delta"
    assert "TODO" in left[0]
    assert "TODO: other.places" in (found.folder / "pipeline.yaml").read_text()


NOTEBOOK = """-- Databricks notebook source
-- MAGIC %md about
-- COMMAND ----------
CREATE OR REFRESH STREAMING TABLE orders_raw
AS SELECT * FROM STREAM read_files('s3://b/orders', format => 'json')

-- COMMAND ----------

CREATE OR REFRESH STREAMING TABLE orders (CONSTRAINT ok EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW)
AS SELECT CAST(id AS BIGINT) AS id, customer, '-- COMMAND ----------' AS said
FROM STREAM(LIVE.orders_raw)
CREATE STREAMING TABLE customers;
APPLY CHANGES INTO LIVE.customers FROM STREAM(LIVE.orders)
  KEYS (customer) SEQUENCE BY id
create flow more
AS
AUTO CDC INTO newest FROM STREAM(orders) KEYS (id) SEQUENCE BY id
-- COMMAND ----------
-- MAGIC %python
-- MAGIC print(1)
-- COMMAND ----------
CREATE OR REFRESH MATERIALIZED VIEW daily AS SELECT customer, count(*) AS n FROM orders GROUP BY customer
"""


def test_cells_of_a_notebook_end_statements(tmp_path: Path) -> None:
    found, left = loaded(tmp_path, NOTEBOOK)
    assert list(found.bronze) == ["orders_raw"]
    assert list(found.silver) == ["orders", "customers", "newest"]
    assert list(found.gold) == ["daily"]
    assert [line.partition(":")[0] for line in left] == ["line 19"]
    assert imported(tmp_path / "in", NOTEBOOK).draft.imported == [
        "orders_raw",
        "orders",
        "customers",
        "daily",
        "newest",
    ]


def test_each_table_that_is_declared_is_imported_or_named_with_its_line(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE a AS SELECT x, FROM STREAM(raw) CREATE STREAMING TABLE s.hidden AS SELECT 1;
    CREATE OR REPLACE TEMPORARY VIEW IF NOT EXISTS b AS SELECT * FROM (SELECT;
    CREATE STREAMING TABLE c;"""
    made = imported(tmp_path, text).draft
    assert (made.imported, made.missing) == (["raw"], {"a": 2, "c": 4, "s.hidden": 2, "b": 3})


THREE = """CREATE STREAMING TABLE bronze.customers AS SELECT * FROM STREAM read_files('s3://b/c', format => 'json');
CREATE STREAMING TABLE silver.customers (CONSTRAINT ok EXPECT (id > 0) ON VIOLATION DROP ROW)
AS SELECT id, customers.name FROM STREAM(bronze.customers);
CREATE MATERIALIZED VIEW gold.by_name AS SELECT name, count(*) AS n FROM {read} GROUP BY name;"""


@pytest.mark.parametrize(
    ("read", "reads"),
    [
        ("silver.customers", ["silver_customers"]),
        ("bronze.customers", ["bronze_customers"]),
        ("main.silver.customers c", ["silver_customers"]),
        ("other.customers", ["other_customers"]),
    ],
)
def test_tables_of_several_schemas_stay_apart(tmp_path: Path, read: str, reads: list[str]) -> None:
    found, _ = loaded(tmp_path, THREE.format(read=read))
    assert next(iter(found.bronze)) == "bronze_customers"
    assert (list(found.silver), list(found.gold)) == (["silver_customers"], ["by_name"])
    assert found.silver["silver_customers"].stream == "bronze_customers"
    assert found.gold["by_name"].query.tables == reads
    assert ("other_customers" in found.bronze) is (reads == ["other_customers"])


def test_a_name_that_may_mean_two_tables_means_none(tmp_path: Path) -> None:
    made = imported(tmp_path, THREE.format(read="customers"))
    assert made.draft.missing == {"gold.by_name": 4}
    assert "customers" in str(made.remarks)


def test_addresses_of_tables_made_elsewhere_stay_apart(tmp_path: Path) -> None:
    text = """CREATE MATERIALIZED VIEW a AS SELECT day, count(*) AS n FROM prod.bronze.orders GROUP BY day;
    CREATE MATERIALIZED VIEW b AS SELECT day, count(*) AS n FROM prod.silver.orders GROUP BY day;
    CREATE MATERIALIZED VIEW c AS SELECT day, count(*) AS n FROM orders, bronze.orders GROUP BY day;"""
    made = imported(tmp_path, text).draft
    assert list(made.bronze) == ["prod_bronze_orders", "prod_silver_orders"]
    assert made.missing == {"c": 3}


def test_a_table_that_reads_its_namesake_reads_another_table(tmp_path: Path) -> None:
    text = """CREATE STREAMING TABLE payments AS SELECT id FROM STREAM(bronze.payments);
    CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM bronze.payments p;"""
    found, _ = loaded(tmp_path, text)
    assert (found.silver["payments"].stream, found.gold["n"].query.tables) == ("bronze_payments", ["bronze_payments"])


def test_several_schemas_are_none_of_a_table_that_is_declared_without_one(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE MATERIALIZED VIEW a AS SELECT count(*) AS n FROM bronze.raw;
    CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n FROM silver.raw;
    CREATE MATERIALIZED VIEW c AS SELECT count(*) AS n FROM raw;
    CREATE MATERIALIZED VIEW d AS SELECT count(*) AS n FROM prod.silver.raw"""
    found, _ = loaded(tmp_path, text)
    assert {name: table.query.tables for name, table in found.gold.items() if table.query} == {
        "a": ["bronze_raw"], "b": ["silver_raw"], "c": ["raw"], "d": ["prod_silver_raw"],
    }  # fmt: skip


def test_a_table_with_a_catalog_that_is_taken_for_one_without_is_told(tmp_path: Path) -> None:
    text = RAW.replace("TABLE raw", "TABLE b.raw") + "CREATE STREAMING TABLE t AS SELECT id FROM STREAM(a.b.raw)"
    made = imported(tmp_path, text)
    assert made.draft.queries["t"].endswith("STREAM(raw)")
    assert [(remark.line, remark.changes_meaning) for remark in made.remarks] == [(2, True)]


@pytest.mark.parametrize("read", ["silver.raw", "prod.silver.raw", "`silver`.`RAW`"])
def test_a_schema_makes_it_another_table_than_one_that_is_declared_without(tmp_path: Path, read: str) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE t AS SELECT id FROM STREAM({read});
    CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM {read};
    CREATE STREAMING TABLE c; APPLY CHANGES INTO c FROM STREAM({read}) KEYS (id) SEQUENCE BY id"""
    found, _ = loaded(tmp_path, text)
    other = read.replace("`", "").replace(".", "_").lower()
    assert (found.silver["t"].stream, found.gold["n"].query.tables, found.silver["c"].stream) == (other, [other], other)
    assert (found.bronze[other].format, found.bronze["raw"].format) == ("delta", "json")


def test_a_name_without_a_schema_that_is_taken_for_a_table_with_one_is_told(tmp_path: Path) -> None:
    text = RAW.replace("TABLE raw", "TABLE silver.raw") + "CREATE STREAMING TABLE t AS SELECT id FROM STREAM(raw)"
    found, left = loaded(tmp_path, text)
    assert found.silver["t"].stream == next(iter(found.bronze))
    assert "line 2: raw, which t reads" in " ".join(left)


def test_a_with_of_the_name_of_a_table_is_not_renamed(tmp_path: Path) -> None:
    text = THREE.format(read="silver.customers")
    text += (
        "CREATE MATERIALIZED VIEW gold.{} AS WITH customers AS (SELECT max(name) AS n FROM {}) SELECT * FROM customers"
    )
    found, _ = loaded(tmp_path, text.format("w", "silver.customers"))
    assert found.gold["w"].query.tables == ["silver_customers"]
    only = RAW.replace("raw", "silver.customers") + text.replace(THREE.format(read="silver.customers"), "")
    only += ";CREATE MATERIALIZED VIEW o AS SELECT count(*) AS n FROM other.customers"
    made = imported(tmp_path / "again", only.format("w", "customers"))
    assert "gold.w" in made.draft.missing


def test_a_second_table_of_one_name_is_named_as_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twice.sql").write_text(f"{RAW}CREATE STREAMING TABLE a AS SELECT id FROM STREAM(raw);\n" * 2)
    done = CliRunner().invoke(app, ["import", "twice.sql"])
    assert "dataset raw" in done.output
    assert done.exit_code == 3


@pytest.mark.parametrize(
    ("text", "file", "missing"),
    [
        ("CREATE FLOW f AS INSERT INTO raw BY NAME SELECT * FROM STREAM(x);", "x.sql", {"the flow f into raw": 2}),
        ("INSERT INTO a.raw SELECT * FROM STREAM(x);", "x.sql", {"the INSERT of line 2 into a.raw": 2}),
        (
            "CREATE STREAMING TABLE t; APPLY CHANGES INTO t FROM STREAM(raw) KEYS (id) SEQUENCE BY id;\n"
            "APPLY CHANGES INTO t FROM STREAM(raw) KEYS (id) SEQUENCE BY at;",
            "x.sql",
            {"the second flow into t": 3},
        ),
        (
            "CREATE STREAMING TABLE t AS SELECT id FROM STREAM(raw);\n"
            "APPLY CHANGES INTO t FROM STREAM(raw) KEYS (id) SEQUENCE BY id",
            "x.sql",
            {"the flow of changes into t": 3},
        ),
        (
            '@dlt.append_flow(target="raw")\ndef more():\n    return dlt.read_stream("x")\n',
            "x.py",
            {"the flow more": 11},
        ),
        (
            'dlt.create_auto_cdc_from_snapshot_flow(target="raw", source="x", keys=["id"])',
            "x.py",
            {"the create_auto_cdc_from_snapshot_flow of line 10": 10},
        ),
    ],
)
def test_a_table_that_lacks_one_of_its_flows_is_not_all_there(
    tmp_path: Path, text: str, file: str, missing: dict[str, int]
) -> None:
    made = imported(tmp_path, (RAW if file.endswith("sql") else HEAD) + text, file)
    assert made.draft.missing == missing
    assert not made.is_complete
    assert f"declared tables and flows ({len(missing)} not imported" in made.summary()


@pytest.mark.parametrize(
    ("spelled", "said"),
    [
        ("DATE(at) AS day", "CAST(at AS DATE) AS day"),
        ("timestamp(r.at) AS t, r.x::int AS x", "CAST(r.at AS TIMESTAMP) AS t, CAST(r.x AS int) AS x"),
        ("upper(x)::decimal(10, 2) AS x", "CAST(upper(x) AS decimal(10, 2)) AS x"),
        ("(a + b)::bigint::string AS x", "CAST(CAST((a + b) AS bigint) AS string) AS x"),
        ("xs[0].y::double AS y", "CAST(xs[0].y AS double) AS y"),
        ("'a::b' AS x, CAST(a AS DECIMAL(3, 1)) AS y", "'a::b' AS x, CAST(a AS DECIMAL(3, 1)) AS y"),
        ("int(DATE(a)) AS x", "CAST(CAST(a AS DATE) AS INT) AS x"),
    ],
)
def test_other_spellings_of_casts_keep_a_table_and_its_rules_in_silver(tmp_path: Path, spelled: str, said: str) -> None:
    rule = "CONSTRAINT c EXPECT (date(at) > date('2020-12-31')) ON VIOLATION DROP ROW"
    text = f"{RAW}CREATE STREAMING TABLE t ({rule}) AS SELECT {spelled}, at FROM STREAM(raw) r"
    made = imported(tmp_path, text)
    if "xs[0]" not in spelled:
        assert made.draft.queries["t"] == f"SELECT {said}, at FROM STREAM(raw) r"
        assert made.draft.silver["t"]["expectations"]["c"] == {
            "expect_or_drop": "CAST(at AS DATE) > CAST('2020-12-31' AS DATE)"
        }
    assert made.error is None or "xs[0]" in spelled


def test_folders_with_patterns_stay_apart(tmp_path: Path) -> None:
    text = "".join(
        f"CREATE STREAMING TABLE {name} AS SELECT * FROM STREAM read_files('/Volumes/x/{path}', FORMAT => 'csv');\n"
        for name, path in (("a", "rides/*.csv"), ("b", "logs/*.csv"), ("c", "other/rides"), ("d", "rides/*.csv"))
    )
    found, left = loaded(tmp_path, text)
    assert {name: (table.path.rpartition("/")[2], table.pathGlobFilter) for name, table in found.bronze.items()} == {
        "a": ("rides", "*.csv"), "b": ("logs", "*.csv"), "c": ("other_rides", None), "d": ("rides", "*.csv"),
    }  # fmt: skip
    assert not [line for line in left if "format" in line]


def test_columns_that_begin_with_an_underscore_have_another_name_wherever_they_are_read(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (`_At` IS NOT NULL)) AS
    SELECT id, _id, '_at' AS said, current_timestamp() AS _at, now() AS `_Source_File` FROM STREAM(raw);
    CREATE MATERIALIZED VIEW n AS SELECT t._at, count(*) AS _n, max(id) AS at FROM t GROUP BY t._at;"""
    made = imported(tmp_path, text)
    assert made.draft.queries["t"].split("SELECT ")[1] == (
        "id, _id, '_at' AS said, receipt_time AS at_, receipt_time AS source_file_ FROM STREAM(raw)"
    )
    assert made.draft.queries["n"] == "SELECT t.at_, count(*) AS n, max(id) AS at FROM t GROUP BY t.at_"
    assert made.draft.silver["t"]["expectations"]["c"] == {"expect": "at_ IS NOT NULL"}
    assert [one.subject for one in made.remarks] == [
        "the column _at", "the column _source_file", "the time of the run in t", "the column _n",
    ]  # fmt: skip
    assert made.error is not None
    assert [mistake.code for mistake in made.error.mistakes] == ["reserved-name"]  # _id, which no query makes


def test_changes_follow_the_other_names_of_columns(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE t AS SELECT id AS _key, at AS _ts, op AS _op FROM STREAM(raw);
    CREATE STREAMING TABLE c;
    APPLY CHANGES INTO c FROM STREAM(t) KEYS (_key) APPLY AS DELETE WHEN _op = 'D' SEQUENCE BY _ts
    COLUMNS * EXCEPT (_op)"""
    found, _ = loaded(tmp_path, text)
    changes = found.silver["c"].apply_changes
    assert changes is not None
    assert (changes.keys, changes.sequence_by, changes.except_column_list) == (["key"], "ts", ["op_"])
    assert changes.apply_as_deletes == "op_ = 'D'"


def test_as_may_be_missing_before_a_query(tmp_path: Path) -> None:
    text = f'{RAW}CREATE MATERIALIZED VIEW x COMMENT "no AS"\nSELECT a, count(*) AS n FROM raw GROUP BY a;'
    found, left = loaded(tmp_path, text)
    assert (list(found.gold), left) == (["x"], [])


def test_mistakes_that_stay_are_told_and_the_definition_is_there_to_mend(tmp_path: Path) -> None:
    text = f"""{RAW}CREATE LIVE TABLE sums AS SELECT id, count(*) AS n FROM raw GROUP BY id;
    CREATE STREAMING TABLE reader AS SELECT r.id, s.n FROM STREAM(raw) r JOIN sums s ON r.id = s.id"""
    made = imported(tmp_path, text)
    assert made.error is not None
    assert made.error.exit_code == 2
    assert "reader reads sums" in str(made.remarks)
    assert (made.folder / "reader.sql").is_file()


# --- Python ----------------------------------------------------------------------------------------------------------

HEAD = """import dlt
from pyspark.sql import functions as F
from pyspark.sql.functions import col as c, sum
PATH = "s3://b"

@dlt.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load(f"{PATH}/raw")

"""


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ('dlt.read_stream("raw")', "SELECT * FROM STREAM(raw)"),
        ('spark.readStream.table("LIVE.raw").select("a", c("b").alias("x"))', "SELECT a, b AS x FROM STREAM(raw)"),
        (
            'dlt.read_stream("raw").filter("a > 1").where(c("b") == "it\'s")',
            "SELECT * FROM STREAM(raw) WHERE (a > 1) AND ((b = 'it\\'s'))",
        ),
        ('dlt.read_stream("raw").withColumn("n", F.lit(1))', "SELECT *, 1 AS n FROM STREAM(raw)"),
        (
            'dlt.read_stream("raw").withColumn("a", c("a").cast("int")).drop("b")',
            "SELECT * EXCEPT (a, b), CAST(a AS INT) AS a FROM STREAM(raw)",
        ),
        (
            'dlt.read_stream("raw").withColumn("n", F.lit(1)).filter(c("a").isin("x", 2))',
            "SELECT *, 1 AS n FROM STREAM(raw) WHERE (a IN ('x', 2))",
        ),
        ('dlt.read_stream("raw").selectExpr("a", "b + 1 AS x")', "SELECT a, b + 1 AS x FROM STREAM(raw)"),
        (
            'dlt.read_stream("raw").join(dlt.read("places"), ["p"], "left")',
            "SELECT * FROM STREAM(raw) LEFT JOIN places USING (p)",
        ),
        (
            'dlt.read("raw").groupBy("a").agg(sum("b").alias("s"), F.count("*").alias("n"))',
            "SELECT a, sum(b) AS s, count(*) AS n FROM raw GROUP BY a",
        ),
        ('dlt.read("raw").groupBy("a", "b").count()', "SELECT a, b, count(*) AS `count` FROM raw GROUP BY a, b"),
        ('spark.sql("SELECT a FROM STREAM(LIVE.raw)")', "SELECT a FROM STREAM(raw)"),
        (
            'spark.read.table("raw").select((~c("a").isNull() & (F.col("b") >= 2)).alias("x"))',
            "SELECT ((NOT (a IS NULL)) AND (b >= 2)) AS x FROM STREAM(raw)",
        ),
    ],
)
def test_a_chain_that_says_the_same_in_sql(tmp_path: Path, body: str, query: str) -> None:
    files = 'format("cloudFiles").option("cloudFiles.format", "parquet").load("s3://b/places")'
    places = f"@dlt.table\ndef places():\n    return spark.readStream.{files}\n\n"
    made = imported(tmp_path, f"{HEAD}{places}@dlt.table\ndef t():\n    df = {body}\n    return df\n", "source.py")
    of_columns = ("withColumn of", "drop of")  # of which the table's own are not known here
    told = [remark for remark in made.remarks if not remark.subject.startswith(of_columns)]
    assert (" ".join(made.draft.queries["t"].split()), told) == (query, [])
    assert made.error is None


@pytest.mark.parametrize(
    "body",
    [
        'dlt.read("raw").withColumn("x", my_udf("a"))',
        'dlt.read("raw").dropDuplicates(["a"])',
        'dlt.read("raw").select(c("a").alias("b")).filter("b > 1")',
        'dlt.read("raw").withColumn("x", F.lit(1)).withColumn("y", c("x") + 1)',
        'dlt.read("raw").join(dlt.read("o"), c("a") == c("b"))',
        'dlt.read("raw").groupBy("a").agg(sum("b"))',
        "dlt.read(some_name())",
        "spark.sql(f'SELECT {x}')",
        "helper(dlt.read('raw'))",
        "spark.range(10)",
        'dlt.read_stream("raw").withWatermark("t", "1 hour")',
        "[x for x in y]",
        "spark",
        'spark.sql("")',
        'dlt.read_stream(".")',
        'spark.read.format("json").option("multiLine").load("/x")',
        'spark.read.json(["/x", "/y"])',
        'spark.read.format("json").load("/x", "/y")',
        'dlt.read("raw").filter()',
        'dlt.read("raw").withColumn("x")',
        'dlt.read("raw").join(dlt.read("o"))',
    ],
)
def test_a_chain_that_may_say_something_else_is_left(tmp_path: Path, body: str) -> None:
    made = imported(tmp_path, f"{HEAD}@dlt.table\ndef t():\n    return {body}\n", "source.py")
    assert "t" not in made.draft.table_names
    assert [one.subject for one in made.remarks] == ["def t"]
    assert made.remarks[0].line == 12


def test_a_table_that_is_left_is_not_taken_for_one_made_elsewhere(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
@dlt.table
def left():
    return dlt.read("raw").dropDuplicates()

@dlt.table
def reader():
    return dlt.read_stream("left").select("id")
"""
    )
    made = imported(tmp_path, text, "source.py")
    assert "left" not in made.draft.table_names
    assert made.error is not None
    assert "table left" in str(made.error.mistakes[0])


def test_decorators_rules_and_changes_of_python(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
RULES = {"a": "id > 0", "b": "id < 9"}

@dp.materialized_view(name="main.clinic.Sums", comment="sums", partition_cols=["x"])
def anything():
    return spark.read.table("t").groupBy("id").count()

@dlt.table(schema="id BIGINT, x STRING")
@dlt.expect_or_fail("c", "x IS NOT NULL")
@dlt.expect_all_or_drop(RULES)
@dlt.expect("d", "x <> ''")
def t():
    '''What it is.'''
    return dlt.read_stream("raw").select("id", "x")

dlt.create_streaming_table(name="people", expect_all={"e": "id IS NOT NULL"})
dlt.create_auto_cdc_flow(target="people", source="t", keys=["id"], sequence_by=c("x"),
    apply_as_deletes=F.expr("x = 'D'"), except_column_list=["x"], stored_as_scd_type="2", once=True)
"""
    )
    found, left = loaded(tmp_path, text, "source.py")
    assert {name: rule.action for name, rule in found.silver["t"].expectations.items()} == {
        "a": "drop", "b": "drop", "c": "fail", "d": "keep",
    }  # fmt: skip
    changes = found.silver["people"].apply_changes
    assert changes is not None
    assert (changes.sequence_by, changes.apply_as_deletes, changes.stored_as_scd_type) == ("x", "x = 'D'", 2)
    assert list(found.gold) == ["sums"]
    assert [line.split(" of ")[0].split(": ")[1] for line in left] == ["partition_cols", "once"]


def test_python_is_never_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    text = f"{HEAD}open({str(ran)!r}, 'w').write('x')\nimport os; os.mkdir({str(ran)!r})\n"
    _, left = loaded(tmp_path, text, "source.py")
    assert len(left) == 2
    assert not ran.exists()


IMPORTS = """import dlt
from pyspark.sql.functions import *
import pyspark.sql.functions as func
from pyspark import pipelines as sdp
from pyspark import pipelines

@sdp.table
def a():
    return (spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
            .option("cloudFiles.schemaHints", "ts TIMESTAMP").load("s3://b/a"))

@pipelines.materialized_view
def b():
    return spark.read.table("a").groupBy("k").agg(func.sum("v").alias("v"), max(col("w")).alias("w"))

sdp.create_streaming_table("c")
sdp.create_auto_cdc_flow("c", "a", ["id"], col("ts"), apply_as_deletes=None, ignore_null_updates=False,
    column_list=None, stored_as_scd_type=1)
for name in NAMES:
    @dlt.table(name=f"{name}_copy")
    def copy():
        return dlt.read(name)
"""


def test_ways_to_import_and_arguments_by_their_places(tmp_path: Path) -> None:
    found, left = loaded(tmp_path, IMPORTS, "source.py")
    assert (list(found.bronze), list(found.silver), list(found.gold)) == (["a"], ["c"], ["b"])
    changes = found.silver["c"].apply_changes
    assert changes is not None
    assert (changes.keys, changes.sequence_by, changes.apply_as_deletes, left[0][:8]) == (
        ["id"],
        "ts",
        None,
        "line 19:",
    )
    assert found.gold["b"].query.text == "SELECT k, sum(v) AS v, max(w) AS w\nFROM a\nGROUP BY k"
    again = imported(tmp_path / "again", IMPORTS, "source.py").draft
    assert again.missing == {"a table of line 20, whose name is computed": 20}


def test_a_name_that_code_makes_is_no_table(tmp_path: Path) -> None:
    body = 'def one():\n    return dlt.read_stream("raw").select("id")\n'
    made = imported(tmp_path, f'{HEAD}@dlt.table(name=f"{{x}}_t")\n{body}', "source.py")
    assert ("one" in made.draft.table_names, made.draft.missing) == (
        False, {"a table of line 10, whose name is computed": 10},
    )  # fmt: skip


@pytest.mark.parametrize(
    "between",
    [
        "",
        "x = 1\n",
        "if x:\n    P = 's3://c'\n",
        "P = spark.conf.get('p')\n",
        "P += '/c'\n",
        "RULES['b'] = 'n > 0'\n",
        "RULES.update(b='n > 0')\n",
        "def f(P): pass\n",
    ],
)
def test_a_name_that_is_bound_again_stands_for_no_value(tmp_path: Path, between: str) -> None:
    text = f"""import dlt
P = "s3://b"
RULES = {{"a": "id > 0"}}

@dlt.table
@dlt.expect_all(RULES)
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load(P)

{between}
@dlt.table
def other():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("s3://other")
"""
    made = imported(tmp_path, text, "source.py")
    told = "line 2: P = 's3://b': the source changes it elsewhere" in "".join(map(str, made.remarks))
    assert told == ("P" in between)
    assert (set(made.draft.missing), made.is_complete) == (
        (set(), True) if between in ("", "x = 1\n") else ({"raw"}, False)
    )


def test_other_ways_to_declare_a_table_in_python_are_counted(tmp_path: Path) -> None:
    text = f"""{HEAD}from dlt import table as t

@t
def one():
    return dlt.read_stream("raw").select("id")

dlt.table(lambda: dlt.read("raw"), name="two")
dlt.view(name="three")(some)
"""
    made = imported(tmp_path, text, "source.py").draft
    assert (made.imported, [*made.missing]) == (["raw", "one"], ["two", "three"])


@pytest.mark.parametrize(
    ("query", "written"),
    [
        (
            "SELECT silver.customers.id, count(*) AS n FROM silver.customers GROUP BY silver.customers.id",
            "SELECT customers.id, count(*) AS n FROM silver_customers AS customers GROUP BY customers.id",
        ),
        (
            "SELECT 1 AS n FROM bronze.customers JOIN `silver`.Customers ON bronze.customers.id = silver.customers.id",
            "SELECT 1 AS n FROM bronze_customers JOIN silver_customers ON bronze_customers.id = silver_customers.id",
        ),
        (
            "WITH a AS (SELECT customers.id FROM bronze.customers) SELECT max(customers.id) AS m FROM silver.customers",
            "WITH a AS (SELECT customers.id FROM bronze_customers AS customers) "
            "SELECT max(customers.id) AS m FROM silver_customers AS customers",
        ),
        (
            "SELECT c.id, count(*) AS n FROM silver.customers AS c GROUP BY c.id",
            "SELECT c.id, count(*) AS n FROM silver_customers AS c GROUP BY c.id",
        ),
    ],
)
def test_columns_that_are_called_by_the_address_of_their_table(tmp_path: Path, query: str, written: str) -> None:
    text = RAW.replace("raw", "bronze.customers") + RAW.replace("raw", "silver.customers")
    found, _ = loaded(tmp_path, f"{text}CREATE MATERIALIZED VIEW g AS {query}")
    assert found.gold["g"].query.text.strip() == written


def test_what_reads_a_table_that_is_declared_twice_is_not_imported(tmp_path: Path) -> None:
    text = """USE SCHEMA bronze;
    CREATE STREAMING TABLE orders AS SELECT * FROM STREAM read_files('s3://b/o', format => 'json');
    USE SCHEMA silver;
    CREATE STREAMING TABLE orders AS SELECT * FROM STREAM(bronze.orders) WHERE id > 0;
    CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM orders;
    CREATE STREAMING TABLE latest;
    APPLY CHANGES INTO latest FROM STREAM(orders) KEYS (id) SEQUENCE BY at;
    """
    made = imported(tmp_path, text).draft
    assert made.imported == ["orders"]
    assert {*made.missing} == {"orders, declared again", "totals", "latest"}


def test_schemas_stay_apart_in_python(tmp_path: Path) -> None:
    body = 'def one():\n    return dlt.read_stream("raw").select("id")\n'
    text = f"""{HEAD}
@dlt.table(name="silver.t")
{body}
@dlt.table(name="main.gold.t")
def two():
    return dlt.read("silver.t").groupBy("id").count()
"""
    found, _ = loaded(tmp_path, text, "source.py")
    assert (list(found.silver), list(found.gold)) == (["silver_t"], ["gold_t"])
    assert found.gold["gold_t"].query.tables == ["silver_t"]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("x.sql", "", "declares no table"),
        ("x.sql", "SELECT 'open", "is not SQL"),
        ("x.py", "def (", "is not Python"),
        ("x.py", "x = 1", "declares no table"),
        ("x.scala", "object X", "neither SQL nor Python"),
    ],
)
def test_a_source_that_declares_nothing_is_refused(tmp_path: Path, file: str, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        imported(tmp_path, text, file)
    assert not list((tmp_path / "pipelines").glob("*"))


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_source_may_have_as_many_bytes_as_the_LARGEST(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    text = f"-- größer\n{RAW}"
    monkeypatch.setattr("sluicegate.tools.migrate.create.LARGEST", len(text.encode()) - beyond)
    if beyond <= 0:
        assert list(loaded(tmp_path, text)[0].bronze) == ["raw"]
        return
    with pytest.raises(UserError, match=r"source\.sql is larger than \d+ bytes"):
        imported(tmp_path, text)
    assert not list((tmp_path / "pipelines").glob("*"))


def test_a_pipeline_that_is_there_stays(tmp_path: Path) -> None:
    loaded(tmp_path, RAW)
    with pytest.raises(UserError, match="pipeline mine already"):
        imported(tmp_path, RAW)


def test_the_command_tells_what_is_left_and_fails_where_mistakes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my flights.sql").write_text(f"{RAW}SET a = 1;")
    done = CliRunner().invoke(app, ["import", "my flights.sql"])
    assert done.exit_code == 0, done.output
    assert "line 2: SET a = 1: no" in done.output
    assert done.output.endswith(
        f"imported 1 of 1 declared tables\npipeline.yaml is valid\nnext:\n  {program()} plan my_flights\n"
    )
    strict = CliRunner().invoke(app, ["import", "my flights.sql", "--name", "strict", "--strict"])
    assert strict.exit_code == 3
    Path("bad.sql").write_text(f"{RAW}CREATE STREAMING TABLE t AS SELECT id + 1 FROM STREAM(raw)")
    bad = CliRunner().invoke(app, ["import", "bad.sql", "--json"])
    assert bad.exit_code == 2
    facts: dict[str, Any] = json.loads(bad.output)
    assert (facts["loads"], facts["mistakes"][0]["code"]) == (False, "sql")


@pytest.mark.parametrize(
    ("statement", "summary"),
    [
        (
            "CREATE STREAMING TABLE s.a AS SELECT x, FROM STREAM(raw)",
            "1 of 2 declared tables (1 not imported, see above)",
        ),
        (
            "CREATE STREAMING TABLE a (CONSTRAINT c EXPECT (n > (SELECT 1))) AS SELECT count(*) AS n FROM STREAM(raw)",
            "2 of 2 declared tables, 1 rule not imported",
        ),
    ],
)  # fmt: skip
def test_an_import_of_a_part_is_not_right_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, summary: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("part.sql").write_text(f"{RAW}{statement}")
    done = CliRunner().invoke(app, ["import", "part.sql"])
    assert (done.exit_code, "pipeline.yaml is valid" in done.output) == (3, False)
    assert f"\nimported {summary}\n" in done.output
    assert ("not imported:\n  line 2: s.a\nnot imported from" in done.output) is ("s.a" in statement)
    again = CliRunner().invoke(app, ["import", "part.sql", "--name", "again", "--json"])
    assert again.exit_code == 3
    facts = json.loads(again.output)
    assert (facts["not_imported"], facts["rules_not_imported"]) == (
        ([{"table": "s.a", "line": 2}], []) if "s.a" in statement else ([], ["c of a"])
    )


def test_rules_of_tables_that_become_bronze_or_gold(tmp_path: Path) -> None:
    """A rule that drops rows of files makes a silver table, as bronze keeps all."""
    files = "FROM STREAM read_files('s3://b/c', format => 'json')"
    text = f"""CREATE STREAMING TABLE kept (CONSTRAINT a EXPECT (id > 0), CONSTRAINT b EXPECT (id < 9)
      ON VIOLATION FAIL UPDATE) AS SELECT * {files};
    CREATE STREAMING TABLE dropped (CONSTRAINT a EXPECT (id > 0) ON VIOLATION DROP ROW) AS SELECT * {files};
    CREATE MATERIALIZED VIEW counts (CONSTRAINT a EXPECT (n > 1), CONSTRAINT b EXPECT (id IS NOT NULL) ON VIOLATION
      DROP ROW, CONSTRAINT c EXPECT (date(m) > '2020-01-01') ON VIOLATION FAIL UPDATE)
    AS SELECT id, count(*) AS n, max(at) AS m FROM kept GROUP BY id;"""
    found, left = loaded(tmp_path, text)
    assert (list(found.bronze), list(found.silver)) == (["kept", "dropped_landed"], ["dropped"])
    assert left == []
    rules = {
        name: {rule: (its.action, its.text) for rule, its in table.expectations.items()}
        for name, table in {**found.bronze, **found.gold}.items()
    }
    assert rules == {
        "kept": {"a": ("keep", "id > 0"), "b": ("fail", "id < 9")},
        "dropped_landed": {},
        "counts": {
            "a": ("keep", "n > 1"),
            "b": ("drop", "id IS NOT NULL"),
            "c": ("fail", "CAST(m AS DATE) > '2020-01-01'"),
        },
    }


SOME = """CREATE OR REFRESH STREAMING LIVE TABLE MATERIALIZED VIEW t u ( ) AS SELECT * id , FROM STREAM ( raw ) ; LIVE
. raw CONSTRAINT c EXPECT ( id > 0 ) ON VIOLATION DROP ROW COMMENT 'x' APPLY CHANGES INTO KEYS SEQUENCE BY WHERE ;
_metadata read_files ( 's3://b/x' , format => 'json' ) GROUP BY JOIN WITH count ( * ) `b` 1 FLOW
AUTO CDC ; cloud_files"""


@given(st.lists(st.sampled_from(SOME.split()), max_size=30))
@example(["CREATE", "TABLE", "CREATE", "."])
def test_any_words_are_taken_over_or_told(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    text = " ".join(words)
    statements = [part for part in text.split(";") if part.strip()]
    read = sql_source.read(text, "x.sql", SourceSettings())
    assert len(read.remarks) + len(read.datasets) + len(read.changes) >= len(statements)
    imported(tmp_path_factory.mktemp("any"), RAW + text)
