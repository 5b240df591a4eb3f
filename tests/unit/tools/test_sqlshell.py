"""The SQL command: Spark's SQL over the tables of a lake, with Spark's meaning, and nothing else within reach."""

from __future__ import annotations

import base64
import json
import os
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from sluicegate import definition
from sluicegate.cli import app
from sluicegate.definition import Pipeline
from sluicegate.errors import DamagedTable, NotADeltaTable, QueryError, SluicegateError
from sluicegate.settings import Settings
from sluicegate.spark_sql.order_by import Ordering
from sluicegate.spark_sql.query import Query
from sluicegate.tools.sqlshell import names, shell
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

UTC_TIME = pa.timestamp("us", "UTC")


@dataclass
class Named:
    name: str


@dataclass
class Asked:
    ordering: Ordering


@dataclass
class Stand:
    """As much of a definition as the SQL command looks at."""

    name: str
    database: Named | None = None
    bronze: dict[str, object] = field(default_factory=dict)
    silver: dict[str, object] = field(default_factory=dict)
    gold: dict[str, object] = field(default_factory=dict)
    deidentified_tables: dict[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings.of)
    ruled: tuple[str, ...] = ()


class Shop:
    """A lake with a few tables, and a way to ask it."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.settings = Settings(str(lake), str(lake / "landing"), lake / "pipelines", "local")
        self.stands = {
            "heart": Stand(
                "heart",
                Named("clinic"),
                bronze={"recordings": 1, "patients": 1},
                silver={"enriched": 1},
                gold={"daily": Asked(Query.parse("SELECT mrn AS n FROM enriched").ordering)},
            ),
            "sport": Stand("sport", Named("clinic"), bronze={"recordings": 1, "odd": 1}),
        }

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        return cast("Mapping[str, Pipeline]", self.stands)

    def write(self, place: str, rows: pa.Table, **how: Any) -> None:
        write_deltalake(str(self.lake / place), rows, **how)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        table = shell.query(sql, self.pipelines, self.settings)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def refusal(self, sql: str) -> QueryError:
        with pytest.raises(QueryError) as caught:
            self.ask(sql)
        return caught.value


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(tmp_path_factory.mktemp("lake"))
    recordings = pa.table(
        {
            "device_id": pa.array([1, 2, 3], pa.int32()),
            "mrn": [10, 20, 99],
            "time": [1735689600.5, 1735693200.25, 1735776000.0],
            "heartrate": [60.0, -1.0, 80.0],
            "_chunk": [0, 0, 1],
            "_pos": [0, 1, 0],
        }
    )
    shop.write("heart/bronze/recordings", recordings.slice(0, 2))
    time.sleep(0.05)
    shop.write("heart/bronze/recordings", recordings.slice(2), mode="append")
    shop.write("sport/bronze/recordings", pa.table({"x": [1]}))
    times = [datetime(2025, 1, 1, 6, tzinfo=UTC), datetime(2025, 1, 2, 7, 30, tzinfo=UTC)]
    shop.write(
        "heart/silver/enriched",
        pa.table(
            {"mrn": [10, 20], "name": ["Ada", "Bo"], "time": pa.array(times, UTC_TIME), "heartrate": [60.0, 70.5]}
        ),
    )
    shop.write("heart/silver/enriched_quarantine", pa.table({"mrn": [99], "_reason": ["known_patient"]}))
    odd = {
        "i": [1, 2, 3],
        "d": [1.5, 2.7, -3.5],
        "s": ["2020-01-01", "2020-01-02", "2020-01-03"],
        "ts": pa.array([datetime(2020, 1, k, k + 3, 5, 6, 700, UTC) for k in (1, 2, 3)], UTC_TIME),
        "b": [True, None, False],
        "st": [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None],
        "li": [[3, 1], [], None],
    }
    shop.write("sport/bronze/odd", pa.table(odd))
    return shop


# Names


def test_tables_are_named_by_pipeline_and_by_database(shop: Shop) -> None:
    tables = shell.tables(shop.pipelines, shop.settings)
    own = {
        "heart.recordings": "heart/bronze/recordings",
        "heart.patients": "heart/bronze/patients",
        "heart.enriched": "heart/silver/enriched",
        "heart.enriched_quarantine": "heart/silver/enriched_quarantine",
        "heart.daily": "heart/gold/daily",
        "sport.recordings": "sport/bronze/recordings",
        "sport.odd": "sport/bronze/odd",
    }
    # clinic.recordings is left out: both pipelines fill it.
    shared = {f"clinic.{name.split('.')[1]}": place for name, place in own.items() if "recordings" not in name}
    assert tables == {name: f"{shop.lake}/{place}" for name, place in (own | shared).items()}


@pytest.mark.parametrize(
    "name", ["heart.enriched", "clinic.enriched", "enriched", "HEART.Enriched", "`heart`.`enriched`", "enriched AS e"]
)
def test_a_table_is_found_by_each_of_its_names(shop: Shop, name: str) -> None:
    assert shop.ask(f"SELECT mrn FROM {name} ORDER BY mrn") == [(10,), (20,)]


def test_quarantine_is_a_table_like_others_and_nothing_is_hidden(shop: Shop) -> None:
    assert shop.ask("SELECT * FROM heart.enriched_quarantine") == [(99, "known_patient")]
    table = shell.query("SELECT * FROM heart.recordings", shop.pipelines, shop.settings)
    assert table.column_names == ["device_id", "mrn", "time", "heartrate", "_chunk", "_pos"]
    assert shop.ask("SELECT max(_chunk), max(_pos) FROM heart.recordings") == [(1, 1)]


@pytest.mark.parametrize("name", ["recordings", "clinic.recordings"])
def test_a_name_that_means_two_tables_is_refused(shop: Shop, name: str) -> None:
    error = shop.refusal(f"SELECT * FROM {name}")
    assert error.message == f"ambiguous table name {name}"
    assert error.hint == "use one of heart.recordings, sport.recordings"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("heart.recordngs", "did you mean heart.recordings?"),
        ("hart.recordings", "did you mean heart.recordings?"),
        ("enrichd", "did you mean enriched?"),
        ("recording", "did you mean heart.recordings?"),
        ("heart.enriched_quarantin", "did you mean heart.enriched_quarantine?"),
    ],
)
def test_an_unknown_table_gets_the_nearest_name(shop: Shop, name: str, hint: str) -> None:
    error = shop.refusal(f"SELECT *\nFROM {name}")
    assert error.message == f"unknown table {name}"
    assert error.hint == hint
    assert error.where.line == 2
    shown = error.cause.splitlines()
    assert shown[1] == f"FROM {name}"
    assert shown[2].strip("^ ") == ""
    assert shown[1][shown[2].index("^") :] == name.split(".")[-1]


def test_where_nothing_is_near_the_first_tables_are_listed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    hint = shop.refusal("SELECT * FROM zzz").hint
    assert hint.startswith("tables: heart.recordings, ")
    assert hint.endswith("sport.odd")
    monkeypatch.setattr(names, "SHOWN", 2)
    assert shop.refusal("SELECT * FROM zzz").hint == "tables: heart.recordings, heart.patients and 5 more"


def test_of_a_pipeline_that_has_no_definition_here_it_is_said_so(shop: Shop) -> None:
    for name in ("zzz.recordings_of_others", "zzz.recordings"):
        hint = shop.refusal(f"SELECT * FROM {name}").hint
        assert hint.startswith("the definition of zzz cannot be read here")
    hint = shop.refusal("SELECT * FROM sport.qwertyuiopasdf").hint
    assert hint == "tables: sport.recordings, sport.odd"


def test_columns_can_be_named_with_their_table_and_pipeline(shop: Shop) -> None:
    sql = "SELECT heart.enriched.name, enriched.mrn FROM heart.enriched WHERE heart.enriched.mrn = 10"
    assert shop.ask(sql) == [("Ada", 10)]
    assert shop.ask("SELECT o.st.b.c, st.a FROM sport.odd o ORDER BY i") == [("x", 1), (None, None), (None, None)]


def test_with_queries_hide_tables_only_where_they_are_seen(shop: Shop) -> None:
    assert shop.ask("WITH enriched AS (SELECT name FROM enriched) SELECT * FROM enriched ORDER BY 1") == [
        ("Ada",),
        ("Bo",),
    ]
    later = "WITH a AS (SELECT count(*) AS n FROM enriched), enriched AS (SELECT 1) SELECT n FROM a"
    assert shop.ask(later) == [(2,)]
    outer = "WITH e AS (SELECT 7 AS x) SELECT (SELECT max(x) FROM e) AS a, (SELECT x FROM (SELECT * FROM E)) AS b"
    assert shop.ask(outer) == [(7, 7)]
    inner = "SELECT * FROM (WITH odd AS (SELECT 5 AS five) SELECT * FROM odd) JOIN (SELECT count(*) FROM odd)"
    assert shop.ask(inner) == [(5, 3)]


def test_a_table_that_no_run_has_made_is_said_to_be_so(shop: Shop) -> None:
    error = shop.refusal("SELECT * FROM heart.daily")
    assert error.message == "heart.daily does not exist yet"
    assert "sluicegate run heart" in error.hint


def test_files_that_are_no_delta_table_are_said_to_be_so(shop: Shop) -> None:
    folder = shop.lake / "heart" / "bronze" / "patients"
    folder.mkdir()
    (folder / "a.csv").write_text("x")
    with pytest.raises(NotADeltaTable):
        shop.ask("SELECT * FROM heart.patients")


def test_the_tables_of_a_real_definition_are_found(tmp_path: Path) -> None:
    pipelines = ROOT / "pipelines"
    settings = Settings(str(tmp_path / "lake"), str(tmp_path / "landing"), pipelines, "local")
    known = {name: definition.load(name, settings) for name in definition.names(pipelines)}
    tables = shell.tables(known, settings)
    lake = tmp_path / "lake" / "heart_rate"
    assert tables["heart_rate.recordings_bronze"] == str(lake / "bronze" / "recordings_bronze")
    assert tables["heart_rate.recordings_enriched_quarantine"] == str(
        lake / "silver" / "recordings_enriched_quarantine"
    )
    retold = tmp_path / "lake" / "online_school" / "gold"
    assert tables["school.instructor_counts"] == str(retold / "instructor_counts")


def test_a_de_identified_table_has_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "pipeline.yaml").write_text(
        "name: p\nbronze: {b: {path: /in, format: json}}\n"
        'silver: {s: {sql: "SELECT a FROM STREAM(b)", pii: [a], deidentified: {a: mask}, expect_all: {there: a > 0}}}\n'
    )
    settings = Settings(str(tmp_path / "lake"), "/landing", tmp_path, "local")
    found = shell.tables({"p": definition.load("p", settings)}, settings)
    assert list(found) == ["p.b", "p.s", "p.s_quarantine", "p.s_deidentified", "p.s_rejected"]
    assert found["p.s_deidentified"] == f"{tmp_path}/lake/p/silver/s_deidentified"


def test_a_pipeline_comes_before_a_database_of_its_name(shop: Shop) -> None:
    stands = {"clinic": Stand("clinic", None, bronze={"enriched": 1})}
    pipelines = cast("Mapping[str, Pipeline]", shop.stands | stands)
    tables = shell.tables(pipelines, shop.settings)
    assert tables["clinic.enriched"] == f"{shop.lake}/clinic/bronze/enriched"
    assert tables["clinic.daily"] == f"{shop.lake}/heart/gold/daily"


def test_without_pipelines_there_are_no_tables(shop: Shop) -> None:
    assert shell.tables({}, shop.settings) == {}
    with pytest.raises(QueryError, match="table t"):
        shell.query("SELECT * FROM t", {}, shop.settings)
    assert shell.query("SELECT 1 AS one", {}, shop.settings).to_pylist() == [{"one": 1}]


# Time travel


def test_a_table_is_read_as_of_a_version(shop: Shop) -> None:
    assert shop.ask("SELECT count(*) FROM heart.recordings VERSION AS OF 0") == [(2,)]
    assert shop.ask("SELECT r.mrn FROM heart.recordings VERSION AS OF 1 AS r WHERE r._chunk = 1") == [(99,)]
    both = """SELECT now.mrn FROM heart.recordings AS now
              LEFT ANTI JOIN heart.recordings VERSION AS OF 0 AS before USING (device_id)"""
    assert shop.ask(both) == [(99,)]


def test_a_table_is_read_as_of_a_time(shop: Shop) -> None:
    newest, first = DeltaTable(f"{shop.lake}/heart/bronze/recordings").history()
    between = datetime.fromtimestamp((first["timestamp"] + 20) / 1000, UTC).isoformat()
    assert shop.ask(f"SELECT count(*) FROM heart.recordings TIMESTAMP AS OF '{between}'") == [(2,)]
    very = datetime.fromtimestamp(first["timestamp"] / 1000, UTC).isoformat(timespec="milliseconds")
    assert shop.ask(f"SELECT count(*) FROM heart.recordings TIMESTAMP AS OF '{very}'") == [(2,)]
    after = datetime.fromtimestamp(newest["timestamp"] / 1000 + 1, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    assert shop.ask(f"SELECT count(*) FROM heart.recordings TIMESTAMP AS OF '{after}'") == [(3,)]
    assert shop.ask("SELECT count(*) FROM heart.recordings TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY r") == [
        (3,)
    ]


@pytest.mark.parametrize(
    ("travel", "message"),
    [
        ("VERSION AS OF 7", "unknown version 7 of heart.recordings"),
        ("VERSION AS OF 'x'", "'x' is not a version"),
        ("VERSION AS OF x", "x is not a version"),
        ("TIMESTAMP AS OF '1999-12-31'", "heart.recordings had no version at 1999-12-31 00:00:00+00:00: its first"),
        ("TIMESTAMP AS OF 'noon'", "'noon' is not a timestamp"),
        ("TIMESTAMP AS OF NULL", "NULL is not a timestamp"),
        ("TIMESTAMP AS OF mrn", "mrn is not a constant"),
        ("@v0", "v0 is a parameter"),
    ],
)
def test_a_version_that_is_not_there_is_refused(shop: Shop, travel: str, message: str) -> None:
    assert shop.refusal(f"SELECT * FROM heart.recordings {travel}").message.startswith(message)


def test_a_version_whose_files_are_gone_is_said_to_be_so(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write("heart/silver/enriched", pa.table({"mrn": [1]}))
    shop.write("heart/silver/enriched", pa.table({"mrn": [2]}), mode="overwrite")
    for file in DeltaTable(str(tmp_path / "heart/silver/enriched"), version=0).file_uris():
        Path(file).unlink()
    assert shop.ask("SELECT * FROM enriched") == [(2,)]
    error = shop.refusal("SELECT * FROM enriched VERSION AS OF 0")
    assert error.message.startswith("the query failed: ")
    assert "VACUUM" in error.hint


# One SELECT, and only the lake


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "the query is empty"),
        ("-- nothing", "the query is empty"),
        ("SELECT 1; SELECT 2", "only one SELECT"),
        ("DROP TABLE enriched", "only SELECT is supported here, not DROP"),
        ("INSERT INTO enriched SELECT 1", "only SELECT is supported here, not INSERT"),
        ("SHOW TABLES", "only SELECT is supported here, not SHOW"),
        ("COPY enriched TO 'x.csv'", "only SELECT is supported here, not COPY"),
        ("SET lock_configuration = false", "only SELECT is supported here, not SET"),
        ("PRAGMA database_list", "only SELECT is supported here, not PRAGMA"),
        (
            "WITH x AS (SELECT 1) INSERT INTO enriched SELECT * FROM x",
            "only SELECT is supported here, but the query contains INS",
        ),
        (
            "WITH x AS (DELETE FROM enriched) SELECT * FROM x",
            "only SELECT is supported here, but the query contains DELETE",
        ),
        ("SELECT * FROM enriched WHERE mrn = :mrn", "mrn is a parameter"),
        ("SELECT * FROM enriched WHERE mrn = ?", "? is a parameter"),
    ],
)
def test_only_one_select_is_run(shop: Shop, sql: str, message: str) -> None:
    assert shop.refusal(sql).message.startswith(message)


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("SHOW TABLES", "sluicegate status"),
        ("use heart_rate", "heart_rate.daily_patient_avg"),
        ("DESCRIBE HISTORY enriched", "sluicegate history"),
        ("DESC enriched", "sluicegate schema"),
        ("CREATE TEMP VIEW v AS SELECT 1", "pipeline.yaml"),
        ("COPY INTO enriched FROM 'x'", "sluicegate copy-into"),
        ("OPTIMIZE enriched", "sluicegate maintain"),
        ("INSERT INTO enriched SELECT 1", "sluicegate copy-into"),
        ("WITH x AS (DELETE FROM enriched) SELECT * FROM x", "pipeline.yaml"),
    ],
)
def test_a_statement_is_answered_with_the_command_that_does_it(shop: Shop, sql: str, command: str) -> None:
    assert command in shop.refusal(sql).hint


def test_columns_of_the_engine_are_hidden_unless_the_query_names_them() -> None:
    rows = pa.table({"_chunk": [1], "id": [2], "_pos": [3], "_chunk_1": [4]})
    names = [
        shell.drop_engine_columns(rows, sql).column_names
        for sql in ("SELECT * FROM a JOIN b USING (id)", "SELECT *, _pos FROM a", "SELECT *, `_CHUNK` FROM a")
    ]
    assert names == [["id"], ["id", "_pos"], ["_chunk", "id", "_chunk_1"]]


def test_one_statement_may_end_as_people_end_it(shop: Shop) -> None:
    assert shop.ask("SELECT 1 AS one; -- done\n;") == [(1,)]
    assert shop.ask("(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1") == [(1,), (2,)]


@pytest.mark.parametrize(
    "source",
    [
        "read_text('{file}')",
        "read_csv('{file}')",
        "read_csv_auto('{file}')",
        "`{file}`",
        "'{file}'",
        "csv.`{file}`",
        "text.`{file}`",
        "parquet_scan('{file}')",
        "glob('{file}')",
        "arrow_scan(1, 2, 3)",
        "python_arrow_scan(1, 2, 3)",
        "duckdb_settings()",
        "duckdb_secrets()",
        "information_schema.tables",
        "pragma_database_list()",
        "query('SELECT 1')",
        "query_table('x')",
        "enriched, read_text('{file}')",
        "enriched, LATERAL read_text('{file}')",
        "enriched LATERAL VIEW read_text('{file}') t AS x",
        "(SELECT * FROM read_text('{file}'))",
        "enriched WHERE name IN (SELECT content FROM read_text('{file}'))",
        "shop",
        "DATA",
    ],
)
def test_a_query_reads_nothing_but_the_lake(shop: Shop, tmp_path: Path, source: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n")
    error = shop.refusal(f"SELECT * FROM {source.format(file=file)}")
    assert any(reason in error.message for reason in ("unknown table", "cannot be read", "cannot be parsed"))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{file}')",
        "COPY (SELECT 1) TO '{file}.out'",
        "SET enable_external_access = true",
        "SET TimeZone = 'Europe/Berlin'",
        "ATTACH '{file}.db' AS other",
        "INSTALL httpfs",
    ],
)
def test_even_the_engine_itself_cannot_reach_anything(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n")
    with shell._engine() as engine, pytest.raises(duckdb.Error):
        engine.execute(statement.format(file=file))
    assert os.listdir(tmp_path) == ["secret.csv"]


def test_asking_changes_nothing_in_the_lake(shop: Shop) -> None:
    def files() -> dict[str, float]:
        return {str(path): path.stat().st_mtime_ns for path in shop.lake.rglob("*")}

    before = files()
    shop.ask("SELECT * FROM enriched JOIN heart.recordings USING (mrn)")
    shop.refusal("SELECT * FROM heart.daily")
    assert files() == before


# Mistakes in a query


@pytest.mark.parametrize(
    ("sql", "message", "line", "marked", "hint"),
    [
        (
            "SELECT mrn,\n       hertrate\nFROM enriched",
            'the query is refused: Referenced column "hertrate" not found in FROM clause!',
            2,
            "hertrate",
            "did you mean heartrate?",
        ),
        (
            "SELECT e.nam FROM enriched e",
            'the query is refused: Table "e" does not have a column named "nam"',
            1,
            "e",
            "did you mean name?",
        ),
        (
            "SELECT 'é', avrage(heartrate) FROM enriched",
            "the query is refused: Scalar Function with name avrage does not exist!",
            1,
            "avrage",
            None,
        ),
        ("SELECT mrn FROM enriched WHERE", "the query cannot be parsed at WHERE", 1, "WHERE", ""),
        ("SELECT a b c FROM enriched", "the query cannot be parsed at c", 1, "c", ""),
        ("SELECT mrn\nFROM (enriched\nORDER BY 1", "the query cannot be parsed at 1: Expecting )", 3, "1", ""),
        ("SELECT mrn\nFROM", "the query cannot be parsed at FROM: Expected table name", 2, "FROM", ""),
        ("SELECT CAST(mrn AS blob2) FROM enriched", "the query cannot be parsed at blob2", 1, "blob2", ""),
        (
            "SELECT name, count(*) FROM enriched",
            'the query is refused: column "name" must appear in the GROUP BY clause',
            1,
            "name",
            None,
        ),
    ],
)
def test_a_mistake_is_shown_where_it_stands(
    shop: Shop, sql: str, message: str, line: int, marked: str, hint: str | None
) -> None:
    error = shop.refusal(sql)
    assert error.message.startswith(message)
    assert "\n" not in error.message
    assert error.where.line == line
    _, text, carets = error.cause.splitlines()
    assert text == sql.splitlines()[line - 1]
    assert text[carets.index("^") : len(carets)] == marked
    if hint is not None:
        assert error.hint == hint


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("SELECT 'abc FROM enriched", "quote or"),
        ("SELECT CAST(name AS INT) FROM enriched", "Could not convert string 'Ada (not a whole number)'"),
        ("SELECT mrn / (mrn - 10) FROM enriched", "division by zero"),
        ("SELECT mrn % 0 FROM enriched", "Division by zero"),
        ("SELECT mrn + name FROM enriched", "No function matches"),
        ("SELECT CAST(b AS TIMESTAMP) FROM odd", "A value of this type cannot be cast to that type."),
        ("SELECT skewness(d) FROM odd", "cannot be run without Spark: skewness"),
        ("SELECT hash(d) FROM odd", "cannot be run without Spark: hash"),
        ("SELECT months_between(ts, s) FROM odd", "cannot be run without Spark: months_between"),
        ("SELECT exists(li, x -> x > 1) FROM odd", "cannot be run without Spark: DuckDB has no exists"),
        ("SELECT transform(li, (x, i) -> i) FROM odd", "cannot be run without Spark: the index of an element"),
        ("SELECT filter(li, (x, i) -> i > 0) FROM odd", "cannot be run without Spark: the index of an element"),
        ("SELECT max(struct(d, s)) FROM odd", "cannot be run without Spark: NULL is the smallest part"),
        ("SELECT date_trunc('fortnight', ts) FROM odd", "cannot truncate a time to fortnight"),
        ("SELECT date_format(ts, 'Q') FROM odd", "Q in the format of a time"),
        ("SELECT date_format(ts, s) FROM odd", "a time format must be a string literal"),
        ("SELECT x FROM odd LATERAL VIEW OUTER explode(li) t AS x", "LATERAL VIEW OUTER"),
        ("SELECT soundex(s) FROM odd", "cannot be run without Spark: "),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "the query is nested too deeply"),
    ],
)
def test_a_refusal_is_one_sentence(shop: Shop, sql: str, part: str) -> None:
    error = shop.refusal(sql)
    assert part.lower() in error.message.lower()
    assert "\n" not in error.message
    assert "Traceback" not in error.for_people()
    assert "<class" not in error.for_people()
    assert json.dumps(error.as_dict())


def test_a_broken_table_is_said_to_be_so(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write("heart/silver/enriched", pa.table({"mrn": [1]}))
    log = tmp_path / "heart/silver/enriched/_delta_log/00000000000000000000.json"
    log.write_text("{not json")
    with pytest.raises(SluicegateError) as caught:
        shop.ask("SELECT * FROM enriched")
    assert isinstance(caught.value, DamagedTable)
    assert caught.value.where.file == str(log)
    assert (caught.value.where.table, "\n" in caught.value.message) == ("enriched", False)


# What Spark 4.2 gives for the same: recorded from Spark, over the table sport.odd


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


SCALARS: dict[str, list[Any]] = {
    "cast(d AS INT)": [1, 2, -3],
    "int(d)": [1, 2, -3],
    "bigint(d)": [1, 2, -3],
    "cast(-2.5 AS INT)": [-2, -2, -2],
    "cast(9007199254740993 AS BIGINT)": [9007199254740993] * 3,
    "cast(cast(2.999999999999 AS DECIMAL(20, 12)) AS INT)": [2, 2, 2],
    "cast(' 12 ' AS INT)": [12, 12, 12],
    "try_cast('2.7' AS INT)": [None, None, None],
    "try_cast(s AS INT)": [None, None, None],
    "cast(b AS INT)": [1, None, 0],
    "cast(ts AS DOUBLE)": [1577851506.0007, 1577941506.0007, 1578031506.0007],
    "cast(ts AS BIGINT)": [1577851506, 1577941506, 1578031506],
    "cast(ts AS STRING)": ["2020-01-01 04:05:06.0007", "2020-01-02 05:05:06.0007", "2020-01-03 06:05:06.0007"],
    "cast(abs(d) AS TIMESTAMP)": [utc(1970, 1, 1, 0, 0, k, us) for k, us in ((1, 500_000), (2, 700_000), (3, 500_000))],
    "cast(i AS TIMESTAMP)": [utc(1970, 1, 1, 0, 0, k) for k in (1, 2, 3)],
    "cast(1578302216.5450108D AS TIMESTAMP)": [utc(2020, 1, 6, 9, 16, 56, 545_010)] * 3,
    "cast(-1.0000005D AS TIMESTAMP)": [utc(1969, 12, 31, 23, 59, 59)] * 3,
    "cast(s AS TIMESTAMP)": [utc(2020, 1, k) for k in (1, 2, 3)],
    "timestamp_seconds(i)": [utc(1970, 1, 1, 0, 0, k) for k in (1, 2, 3)],
    "timestamp_millis(1500)": [utc(1970, 1, 1, 0, 0, 1, 500_000)] * 3,
    "date_trunc('DD', ts)": [utc(2020, 1, k) for k in (1, 2, 3)],
    "date_trunc('MM', ts)": [utc(2020, 1, 1)] * 3,
    "date_trunc('WEEK', ts)": [utc(2019, 12, 30)] * 3,
    "trunc(ts, 'MM')": [date(2020, 1, 1)] * 3,
    "dayofweek(ts)": [4, 5, 6],
    "weekday(ts)": [2, 3, 4],
    "extract(dayofweek FROM ts)": [4, 5, 6],
    "date_part('dow', ts)": [4, 5, 6],
    "extract(second FROM ts)": [Decimal("6.000700")] * 3,
    "date_add(s, 3)": [date(2020, 1, k) for k in (4, 5, 6)],
    "add_months('2020-01-31', 1)": [date(2020, 2, 29)] * 3,
    "from_utc_timestamp(ts, 'Europe/Berlin')": [utc(2020, 1, k, k + 4, 5, 6, 700) for k in (1, 2, 3)],
    "to_utc_timestamp(ts, 'Europe/Berlin')": [utc(2020, 1, k, k + 2, 5, 6, 700) for k in (1, 2, 3)],
    "unix_timestamp(ts)": [1577851506, 1577941506, 1578031506],
    "unix_timestamp('2020/01', 'yyyy/MM')": [1577836800] * 3,
    "unix_millis(ts)": [1577851506000, 1577941506000, 1578031506000],
    "date_format(ts, 'yyyy-MM-dd HH:mm')": ["2020-01-01 04:05", "2020-01-02 05:05", "2020-01-03 06:05"],
    "date_format(ts, 'HH:mm:ss.SSS')": ["04:05:06.000", "05:05:06.000", "06:05:06.000"],
    "date_format(ts, \"dd'T'HH\")": ["01T04", "02T05", "03T06"],
    "timestampdiff(HOUR, timestamp '2020-01-01 00:59:00', timestamp '2020-01-01 02:00:00')": [1, 1, 1],
    "datediff(MONTH, date '2020-01-31', date '2020-02-01')": [0, 0, 0],
    "datediff(ts, '2019-12-30 23:00:00')": [2, 3, 4],
    "substring('abc', i - 1, 2)": ["ab", "ab", "bc"],
    "substr('abc', 0)": ["abc", "abc", "abc"],
    "substring('abc', -2)": ["bc", "bc", "bc"],
    "'a_c' LIKE 'a\\\\_c'": [True, True, True],
    "'abc' LIKE 'a\\\\_c'": [False, False, False],
    "concat('a', null)": [None, None, None],
    "regexp_extract('a1b2', '([a-z])([0-9])')": ["a", "a", "a"],
    "array(1, 2)[0]": [1, 1, 1],
    "element_at(array(1, 2), 1)": [1, 1, 1],
    "pmod(-7, 3)": [2, 2, 2],
    "-7 % 3": [-1, -1, -1],
    "-7 DIV 2": [-3, -3, -3],
    "7 / 2": [3.5, 3.5, 3.5],
    "isnull(b)": [False, True, False],
    "isnotnull(b)": [True, False, True],
    "s <=> null": [False, False, False],
    "greatest(i, null, 2)": [2, 2, 3],
    "nanvl(d, 0)": [1.5, 2.7, -3.5],
    "format_string('%s-%d', s, i)": ["2020-01-01-1", "2020-01-02-2", "2020-01-03-3"],
    "ts - timestamp '2020-01-01 00:00:00'": [
        timedelta(days=k - 1, hours=k + 3, minutes=5, seconds=6, microseconds=700) for k in (1, 2, 3)
    ],
    "CASE WHEN i <> 1 THEN 1 / (i - 1) END": [None, 1.0, 0.5],
}

AGGREGATES: dict[str, Any] = {
    "percentile(i, 0.25)": 1.5,
    "percentile(d, 0.75)": 2.1,
    "median(d)": 1.5,
    "sum(i)": 6,
    "count_if(i > 1)": 2,
    "every(i > 0)": True,
    "avg(d)": pytest.approx(0.7 / 3, abs=1e-12),
    "sum(d) / count(*)": pytest.approx(0.7 / 3, abs=1e-12),
    "count(b)": 2,
    "first(s)": "2020-01-01",
    "max_by(s, d)": "2020-01-02",
    "kurtosis(d)": pytest.approx(-1.5),
    "cast(avg(d) * 10 AS INT)": 2,
    "cast(-avg(i) - 0.9D AS INT)": -2,
    "cast(max(ts) AS BIGINT)": 1578031506,
    "cast(max(ts) AS STRING)": "2020-01-03 06:05:06.0007",
    "cast(max(i) AS TIMESTAMP)": datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC),
    "cast(max(d) AS TIMESTAMP)": datetime(1970, 1, 1, 0, 0, 2, 700_000, UTC),
    "cast(max(ts) AS TIMESTAMP)": datetime(2020, 1, 3, 6, 5, 6, 700, UTC),
    "cast(max(ts) AS DOUBLE)": 1578031506.0007,
    "cast(max(b) AS INT)": 1,
    "cast(max(s) AS DATE)": date(2020, 1, 3),
    "cast(cast(max(d) AS DECIMAL(9, 3)) AS BIGINT)": 2,
    "cast(count(*) AS STRING)": "3",
}


@pytest.mark.parametrize(("expression", "expected"), SCALARS.items())
def test_an_expression_gives_what_it_gives_in_spark(shop: Shop, expression: str, expected: list[Any]) -> None:
    assert [value for value, _ in shop.ask(f"SELECT {expression} AS v, i FROM odd ORDER BY i")] == expected


@pytest.mark.parametrize(("expression", "expected"), AGGREGATES.items())
def test_an_aggregate_gives_what_it_gives_in_spark(shop: Shop, expression: str, expected: Any) -> None:
    [(value,)] = shop.ask(f"SELECT {expression} AS v FROM odd")
    assert value == expected
    assert type(value) is type(getattr(expected, "expected", expected))


def test_nulls_come_first_as_in_spark(shop: Shop) -> None:
    assert shop.ask("SELECT b FROM odd ORDER BY b") == [(None,), (False,), (True,)]
    assert shop.ask("SELECT b FROM odd ORDER BY b DESC") == [(True,), (False,), (None,)]


def test_spark_shapes_of_queries_run(shop: Shop) -> None:
    assert shop.ask("SELECT i, x FROM odd LATERAL VIEW explode(li) t AS x ORDER BY x") == [(1, 1), (1, 3)]
    assert shop.ask("SELECT i, explode(li) FROM odd ORDER BY 2") == [(1, 1), (1, 3)]
    assert shop.ask(
        "SELECT /*+ BROADCAST(e) */ name FROM enriched e LEFT SEMI JOIN heart.recordings r ON e.mrn = r.mrn"
    )
    assert shop.ask("SELECT * EXCEPT (name, time) FROM enriched ORDER BY 1") == [(10, 60.0), (20, 70.5)]
    gold = """SELECT mrn, name, avg(heartrate) AS avg_heartrate, date_trunc('DD', time) AS date
              FROM enriched GROUP BY mrn, name, date_trunc('DD', time) ORDER BY mrn"""
    assert shop.ask(gold) == [(10, "Ada", 60.0, utc(2025, 1, 1)), (20, "Bo", 70.5, utc(2025, 1, 2))]
    days = "SELECT name FROM enriched WHERE time >= '2025-01-02' AND date(time) < '2025-01-03'"
    assert shop.ask(days) == [("Bo",)]


def test_columns_have_the_names_that_people_expect(shop: Shop) -> None:
    sql = "SELECT avg(heartrate), count(*), cast(sum(mrn) AS INT), 1 + 1, max(e.name) AS m FROM enriched e"
    table = shell.query(sql, shop.pipelines, shop.settings)
    assert table.column_names == ["avg(heartrate)", "count(*)", "CAST(sum(mrn) AS INT)", "1 + 1", "m"]
    table = shell.query("SELECT cast(heartrate AS INT), e.name FROM enriched e", shop.pipelines, shop.settings)
    assert table.column_names == ["heartrate", "name"]


def test_columns_of_one_name_are_kept_apart(shop: Shop) -> None:
    sql = "SELECT a.mrn, b.mrn, a.MRN FROM enriched a JOIN enriched b ON a.mrn = b.mrn LIMIT 1"
    table = shell.query(sql, shop.pipelines, shop.settings)
    assert table.column_names == ["mrn", "mrn_1", "mrn_2"]


def test_types_are_those_of_spark(shop: Shop) -> None:
    sql = "SELECT sum(mrn) AS s, count(*) AS n, max(time) AS t, sum(heartrate) AS h FROM enriched"
    schema = shell.query(sql, shop.pipelines, shop.settings).schema
    assert schema.types == [pa.int64(), pa.int64(), UTC_TIME, pa.float64()]
    [(huge,)] = shop.ask("SELECT sum(x) FROM (SELECT 9223372036854775807 AS x UNION ALL SELECT 1)")
    assert huge == Decimal(2**63)


def test_an_empty_result_has_its_columns(shop: Shop) -> None:
    table = shell.query("SELECT name, time FROM enriched WHERE mrn = 0", shop.pipelines, shop.settings)
    assert table.num_rows == 0
    assert table.schema.names == ["name", "time"]


# Tables that take the other reader


def with_deletion_vector(table: Path, deleted: list[int]) -> None:
    """Commits a deletion vector for the table's only file, as Spark writes one that stands in the log itself."""
    log = table / "_delta_log"
    added = next(
        action["add"]
        for line in (log / "00000000000000000000.json").read_text().splitlines()
        if "add" in (action := json.loads(line))
    )
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(deleted) - 1, 16) + struct.pack(f"<{len(deleted)}H", *deleted)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    vector = {
        "storageType": "i",
        "pathOrInlineDv": z85(data),
        "sizeInBytes": len(data),
        "cardinality": len(deleted),
    }
    features = ["deletionVectors"]
    actions = [
        {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "DELETE", "operationParameters": {}}},
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {"remove": {"path": added["path"], "deletionTimestamp": 0, "dataChange": True}},
        {"add": {**added, "deletionVector": vector}},
    ]
    (log / "00000000000000000001.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def z85(data: bytes) -> str:
    """Base 85 in ZeroMQ's alphabet, padded to whole words."""
    ours = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    theirs = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    padded = data + b"\0" * (-len(data) % 4)
    return base64.b85encode(padded).decode().translate(str.maketrans(ours, theirs))


@pytest.fixture
def vectored(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.write("heart/silver/enriched", pa.table({"mrn": list(range(10)), "Name": [f"n{k}" for k in range(10)]}))
    with_deletion_vector(tmp_path / "heart" / "silver" / "enriched", [2, 3, 7])
    return shop


def test_rows_that_a_deletion_vector_took_away_are_not_seen(vectored: Shop) -> None:
    assert vectored.ask("SELECT * FROM enriched ORDER BY mrn") == [(k, f"n{k}") for k in (0, 1, 4, 5, 6, 8, 9)]
    assert vectored.ask("SELECT count(*) FROM enriched VERSION AS OF 0") == [(10,)]


def test_a_table_with_deletion_vectors_can_be_read_several_times_in_a_query(vectored: Shop) -> None:
    sql = "SELECT count(*) FROM enriched a JOIN enriched b ON a.mrn = b.mrn WHERE a.name IN (SELECT name FROM enriched)"
    assert vectored.ask(sql) == [(7,)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM enriched", [(7,)]),
        ("SELECT 1 FROM enriched LIMIT 1", [(1,)]),
        ("SELECT max(name) FROM enriched WHERE MRN > 5", [("n9",)]),
        ("SELECT e.* FROM enriched e WHERE mrn = 0", [(0, "n0")]),
        ("SELECT name FROM enriched NATURAL JOIN (SELECT 4 AS mrn) AS x", [("n4",)]),
        ("SELECT name FROM enriched JOIN (SELECT 4 AS mrn) AS x USING (mrn)", [("n4",)]),
        ("SELECT count(*) FROM (SELECT * FROM enriched) WHERE name = 'n8'", [(1,)]),
    ],
)
def test_only_columns_that_a_query_needs_are_read_and_all_of_these(
    vectored: Shop, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert vectored.ask(sql) == expected


def test_a_natural_join_reads_the_columns_that_nobody_names(vectored: Shop) -> None:
    vectored.write("heart/bronze/recordings", pa.table({"mrn": [4, 5], "device_id": [1, 2]}))
    asked = "SELECT name, device_id FROM enriched NATURAL JOIN heart.recordings ORDER BY name"
    assert vectored.ask(asked) == [("n4", 1), ("n5", 2)]


def test_columns_that_came_later_are_null_in_rows_of_before(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write("heart/silver/enriched", pa.table({"mrn": [1], "st": [{"a": 1}]}))
    later = pa.table({"mrn": [2], "st": [{"a": 2, "b": "x"}], "extra": [5.0]})
    shop.write("heart/silver/enriched", later, mode="append", schema_mode="merge")
    assert shop.ask("SELECT mrn, extra, st.b FROM enriched ORDER BY mrn") == [(1, None, None), (2, 5.0, "x")]


def test_partitions_are_read(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write("heart/gold/daily", pa.table({"n": [1, 2, 3], "day": ["a", "b", None]}), partition_by=["day"])
    assert shop.ask("SELECT n FROM daily WHERE day = 'b'") == [(2,)]
    assert shop.ask("SELECT n FROM daily WHERE day IS NULL") == [(3,)]


def test_not_a_number_is_the_largest_number_as_in_spark(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write("heart/gold/daily", pa.table({"n": [1, 2, 3, 4], "x": [1.0, float("nan"), -1.0, None]}))
    assert shop.ask("SELECT n FROM daily WHERE x > 0 ORDER BY n") == [(1,), (2,)]
    assert shop.ask("SELECT n FROM daily WHERE NOT x > 0") == [(3,)]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_time_that_python_does_not_have_is_shown(tmp_path: Path, form: list[str]) -> None:
    (tmp_path / "pipelines" / "good").mkdir(parents=True)
    text = 'name: good\nbronze:\n  raw: {path: "${landing}", format: parquet}\n'
    (tmp_path / "pipelines" / "good" / "pipeline.yaml").write_text(text)
    columns = {"day": pa.array([2_932_897, 0], pa.date32()), "at": pa.array([253402300800_000000, 0], UTC_TIME)}
    write_deltalake(str(tmp_path / "lake" / "good" / "bronze" / "raw"), pa.table(columns))
    places = ["--lake", str(tmp_path / "lake"), "--pipelines", str(tmp_path / "pipelines"), *form]
    done = CliRunner().invoke(app.app, ["sql", "SELECT day, at FROM good.raw ORDER BY day", *places])
    assert done.exit_code == 0
    assert "1970-01-01" in done.stdout
    assert "10000-01-01" in done.stdout


def test_what_is_shown_can_be_pasted_into_the_next_query() -> None:
    from sluicegate.cli.inspecting.sql import _pasteable_value

    moment = datetime(2020, 1, 1, 0, 17, 22, 248370)
    shown = [_pasteable_value(value) for value in (moment, moment.replace(microsecond=0), 18064290, True, None, "a,b")]
    assert shown == ["2020-01-01 00:17:22.24837", "2020-01-01 00:17:22", "18064290", "True", None, "a,b"]
