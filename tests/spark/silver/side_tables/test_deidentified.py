"""De-identified tables: they follow their silver tables, and say no more of a person than the definition allows."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sluicegate import pii_key
from sluicegate.errors import PiiKeyMissing, QueryError
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.lake import log, tables
from sluicegate.launch import submit as run_submit
from sluicegate.monitor import status
from sluicegate.silver.side_tables import pseudonyms
from sluicegate.spark import spark_submit
from sluicegate.tools.sqlshell import shell
from tests.conftest import Workspace
from tests.spark.test_recovery import Stopped, stop_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEY = "a key that only the jobs have"
DEFINITION = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "k BIGINT, seq BIGINT, born DATE, mrn BIGINT, weight DOUBLE"}
silver:
"""
PEOPLE = """
  people:
    from: raw
    apply_changes: {keys: [k], sequence_by: seq}
    pii: [name, address, born, mrn]
    deidentified: {name: hmac, mrn: hmac, address: mask, born: drop}
"""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pii_key.VARIABLE, KEY)


def define(workspace: Workspace, silver: str) -> None:
    workspace.define(DEFINITION + silver)
    (workspace.folder / "landing" / "raw").mkdir(parents=True)


def land(workspace: Workspace, name: str, *records: dict[str, Any], age: float = 60) -> None:
    workspace.land(f"raw/{name}.json", "\n".join(json.dumps(record) for record in records), age)


def person(k: int, name: str | None, seq: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "k": k,
        "seq": seq,
        "name": name,
        "address": f"{k} High Street",
        "born": "1980-02-03",
        "mrn": 7000 + k,
    } | more


def pseudonym(value: object, key: str = KEY) -> str:
    return hmac.new(key.encode(), str(value).encode(), hashlib.sha256).hexdigest()


def columns(workspace: Workspace, table: str) -> list[str]:
    found = tables.delta_table(workspace.uri(table))
    assert found is not None
    return [field.name for field in found.schema().fields]


def names(workspace: Workspace) -> dict[int, str | None]:
    return dict(workspace.rows("people_deidentified", "k", "name"))


def verified(workspace: Workspace) -> bool:
    return status.verify(workspace.definition, workspace.settings) == []


def test_each_column_is_what_the_definition_says(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, PEOPLE)
    odd = "Zoë O'Hara\t\u0000 \U0001f600"
    land(
        workspace, "a", person(1, "Ada"), person(2, None), person(3, "Ada", weight=61.5), person(4, odd), person(5, "")
    )
    reports = workspace.run(spark)
    report = reports["people_deidentified"]
    assert (report.state, report.read, report.written) == ("written", 5, 5)
    assert list(reports) == ["raw", "people", "people_deidentified"]
    assert columns(workspace, "people_deidentified") == [
        "address",
        "k",
        "mrn",
        "name",
        "seq",
        "weight",
        "_chunk",
        "_pos",
    ]
    there = sorted(workspace.rows("people_deidentified", "k", "name", "mrn", "address", "weight"))
    assert there == [
        (1, pseudonym("Ada"), pseudonym(7001), "***", None),
        (2, None, pseudonym(7002), "***", None),
        (3, pseudonym("Ada"), pseudonym(7003), "***", 61.5),
        (4, pseudonym(odd), pseudonym(7004), "***", None),
        (5, pseudonym(""), pseudonym(7005), "***", None),
    ]
    assert verified(workspace)
    now = {table.table: table for table in status.status(workspace.definition, workspace.settings).tables}
    assert (now["people_deidentified"].rows, now["people_deidentified"].state) == (5, "up to date")
    pipelines = {"heart_rate": workspace.definition}
    [asked] = shell.query(
        "SELECT count(*) AS n FROM heart_rate.people_deidentified AS d JOIN people AS p USING (k)",
        pipelines, workspace.settings,
    ).to_pylist()  # fmt: skip
    assert asked == {"n": 5}


@pytest.mark.more
def test_it_follows_corrections_deletions_and_rebuilds(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, PEOPLE)
    land(workspace, "a", person(1, "Ada"), person(2, "Bo"), person(3, "Cy"), age=90)
    workspace.run(spark)
    land(workspace, "b", person(2, "Bea", seq=2), person(4, "Di"), age=80)
    report = workspace.run(spark)["people_deidentified"]
    assert (report.state, report.inserted, report.updated, report.deleted) == ("again", 2, 0, 1)
    assert names(workspace) == {1: pseudonym("Ada"), 2: pseudonym("Bea"), 3: pseudonym("Cy"), 4: pseudonym("Di")}
    before = DeltaTable(workspace.uri("people_deidentified")).version()

    spark.sql(f"DELETE FROM delta.`{workspace.uri('raw')}` WHERE k IN (1, 2)")
    report = workspace.run(spark)["people_deidentified"]
    assert names(workspace) == {3: pseudonym("Cy"), 4: pseudonym("Di")}
    # Of bronze it says that records are gone which their files had.
    assert [p for p in status.verify(workspace.definition, workspace.settings) if not p.startswith("raw:")] == []

    past = (
        DeltaTable(workspace.uri("people_deidentified"), version=before)
        .to_pyarrow_table(columns=["k", "name"])
        .to_pylist()
    )
    assert {row["k"]: row["name"] for row in past} == {
        1: pseudonym("Ada"), 2: pseudonym("Bea"), 3: pseudonym("Cy"), 4: pseudonym("Di"),
    }  # fmt: skip
    by_spark = spark.read.format("delta").option("versionAsOf", 0).load(workspace.uri("people_deidentified"))
    assert {row.k for row in by_spark.collect()} == {1, 2, 3}

    spark.read.format("delta").load(workspace.uri("people")).where("k = 4").write.format("delta").mode(
        "overwrite"
    ).save(workspace.uri("people"))
    report = workspace.run(spark, "silver")["people_deidentified"]
    assert (report.state, report.why) == ("rebuilt", "people was changed by WRITE in version 3")
    assert names(workspace) == {4: pseudonym("Di")}
    assert {report.state for report in workspace.run(None).values()} == {"idle"}  # type: ignore[arg-type]


def test_what_was_rescued_and_where_it_came_from_is_left_out(spark: SparkSession, workspace: Workspace) -> None:
    """A query that takes all columns has personal data in columns that nobody can mark."""
    define(workspace, """
  people: {rescued: keep, sql: "SELECT * FROM STREAM(raw)", pii: [name], deidentified: {name: drop}}
""")  # fmt: skip
    land(workspace, "ada-of-1980", person(1, "Ada", mrn="not a number of Ada"))
    workspace.run(spark)
    assert "_rescued_data" in columns(workspace, "people")
    assert columns(workspace, "people_deidentified") == [
        "address",
        "born",
        "k",
        "mrn",
        "seq",
        "weight",
        "_chunk",
        "_pos",
    ]
    assert "Ada" in str(workspace.rows("people"))
    assert "ada" not in str(workspace.rows("people_deidentified")).lower()


LATER = """
  people: {sql: "SELECT * FROM STREAM(raw)", pii: [name], deidentified: {name: hmac}}
"""
# The others are in unit/lake/test_former_versions.py.
STOPS = ("silver.after_commit", "copy.after_commit", "copy.after_data")


def clear_values(folder: Path) -> list[str]:
    """Files of a table with a clear value: as bytes, or as Parquet has it once it is decoded, statistics included."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        texts = [path.read_bytes()]
        if path.suffix == ".parquet":
            texts.append(str(pq.read_table(path).to_pylist()).encode())
            texts.append(str(pq.read_metadata(path).to_dict()).encode())
        if any(word in text for text in texts for word in (b"Betelgeuse", b"77124")):
            found.append(str(path.relative_to(folder)))
    return found


def test_a_column_that_is_masked_later_leaves_nothing(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, LATER)
    folder = Path(workspace.uri("people_deidentified"))
    land(workspace, "a", person(1, "Ada", address="Betelgeuse", mrn=77124), age=90)
    workspace.run(spark)
    spark.sql(f"UPDATE delta.`{workspace.uri('people')}` SET seq = 9, address = 'Betelgeuse 2'")
    workspace.run(spark, "silver")
    DeltaTable(str(folder)).create_checkpoint()
    assert len({path.split("/")[0] for path in clear_values(folder)}) > 1
    follower, before = DeltaTable(str(folder)), spark.read.format("delta").load(str(folder))
    assert before.count() == 1

    workspace.edit("pipeline.yaml", "{name: hmac}", "{name: hmac, address: mask, mrn: drop}")
    workspace.edit("pipeline.yaml", "pii: [name]", "pii: [name, address, mrn]")
    flow = flows.flows(workspace.definition, workspace.lake, "silver")["people_deidentified"]
    assert progress(flow).why.endswith("so it is replaced by a new table, and its former versions are deleted")
    for point in ("silver.before_commit", *STOPS):
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, point)
            with pytest.raises(Stopped):
                workspace.run(spark, "silver")
        # A reader finds one table or the other, whole, also in the session of the run.
        for rows in (DeltaTable(str(folder)).to_pyarrow_table().to_pylist(),
                     [row.asDict() for row in spark.read.format("delta").load(str(folder)).collect()]):  # fmt: skip
            assert [row["address"] for row in rows] == ["Betelgeuse 2" if point == "silver.before_commit" else "***"]
        assert progress(flow).kind == "whole", point
    report = workspace.run(spark, "silver")["people_deidentified"]
    assert (report.state, clear_values(folder)) == ("rebuilt", [])
    assert DeltaTable(str(folder)).metadata().id != follower.metadata().id
    assert "mrn" not in columns(workspace, "people_deidentified")

    land(workspace, "b", person(2, "Bo", address="Betelgeuse", mrn=77124), age=80)
    assert workspace.run(spark)["people_deidentified"].state == "written"
    held = spark.read.format("delta").load(str(folder))
    assert sorted((row.k, row.name, row.address) for row in held.select("k", "name", "address").collect()) == [
        (1, pseudonym("Ada"), "***"), (2, pseudonym("Bo"), "***"),
    ]  # fmt: skip
    assert (clear_values(folder), verified(workspace)) == ([], True)
    assert {report.state for report in workspace.run(None).values()} == {"idle"}  # type: ignore[arg-type]


@pytest.mark.more
def test_another_key_makes_the_table_again(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(workspace, PEOPLE)
    land(workspace, "a", person(1, "Ada"))
    workspace.run(spark)
    first = marks(workspace)
    other = "another key of sixteen bytes"
    monkeypatch.setenv(pii_key.VARIABLE, other)
    report = workspace.run(spark)["people_deidentified"]
    assert report.state == "rebuilt"
    assert report.why.startswith("the key of its pseudonyms changed, so it is replaced by a new table")
    assert names(workspace) == {1: pseudonym("Ada", other)}
    second = marks(workspace)
    assert (first, sorted({*second})) == ([fingerprint(KEY)], [fingerprint(other)])
    assert "key" not in told(workspace, "people")[0]

    workspace.edit("pipeline.yaml", "address: mask", "address: hmac")
    report = workspace.run(spark)["people_deidentified"]
    assert report.why.startswith("its definition changed, so it is replaced by a new table")
    assert workspace.rows("people_deidentified", "address") == [(pseudonym("1 High Street", other),)]


def fingerprint(key: str) -> str:
    return hmac.new(key.encode(), b"sluicegate key fingerprint", hashlib.sha256).hexdigest()[:8]


def told(workspace: Workspace, table: str) -> list[dict[str, Any]]:
    """What the commits of ours say, newest first."""
    return [commit.ours or {} for commit in log.commits(DeltaTable(workspace.uri(table)))]


def marks(workspace: Workspace) -> list[str]:
    return [facts["key"] for facts in told(workspace, "people_deidentified")]


def test_no_key_is_an_error_of_the_run_alone(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(workspace, PEOPLE)
    land(workspace, "a", person(1, "Ada"))
    monkeypatch.delenv(pii_key.VARIABLE)
    assert list(flows.flows(workspace.definition, workspace.lake, "silver")) == ["people", "people_deidentified"]
    with pytest.raises(PiiKeyMissing, match="SLUICEGATE_PII_KEY is not set"):
        workspace.run(spark)
    assert len(workspace.rows("people")) == 1
    assert workspace.rows("people_deidentified") == []
    monkeypatch.setenv(pii_key.VARIABLE, "fifteen bytes..")
    with pytest.raises(PiiKeyMissing, match="at least 16 bytes") as refused:
        workspace.run(spark, "silver")
    assert "fifteen" not in refused.value.for_people()
    monkeypatch.setenv(pii_key.VARIABLE, KEY)
    workspace.run(spark, "silver")
    assert names(workspace) == {1: pseudonym("Ada")}
    monkeypatch.delenv(pii_key.VARIABLE)  # who has no key may look: nothing is behind for that
    assert {progress(flow).kind for flow in flows.flows(workspace.definition, workspace.lake, "silver").values()} == {
        "idle"
    }


def test_columns_that_cannot_be_treated_stop_the_table(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, """
  typo: {sql: "SELECT * FROM STREAM(raw)", pii: [nmae], deidentified: {nmae: hmac}}
  nested: {sql: "SELECT k, home FROM STREAM(raw)", pii: [home], deidentified: {home: hmac}}
  cased: {sql: "SELECT * FROM STREAM(raw)", pii: [NAME, home, born], deidentified: {NAME: hmac, home: mask, born: mask}}
""")  # fmt: skip
    land(workspace, "a", person(1, "Ada", home={"street": "High Street"}))
    with pytest.raises(QueryError, match="typo has no column nmae, which must be de-identified"):
        workspace.run(spark)
    with pytest.raises(QueryError, match="typo has no column"):
        workspace.run(spark, "silver")
    assert workspace.rows("typo_deidentified") == workspace.rows("nested_deidentified") == []
    assert workspace.rows("cased_deidentified", "name", "home", "born") == [(pseudonym("Ada"), None, None)]
    workspace.edit("pipeline.yaml", "nmae: hmac", "nmae: drop, k: drop")
    workspace.edit("pipeline.yaml", "home: hmac", "home: mask")
    with pytest.raises(QueryError, match="typo has no column"):
        workspace.run(spark, "silver")
    assert workspace.rows("nested_deidentified", "k", "home") == [(1, None)]


@pytest.mark.in_the_jvm
@pytest.mark.more
def test_the_key_is_in_no_plan_and_in_nothing_that_is_written(spark: SparkSession, workspace: Workspace) -> None:
    frame = spark.sql("SELECT 'Ada' AS name")
    treated = frame.select(pseudonyms.pseudonym(frame["name"], KEY.encode()).alias("name"))
    assert treated.collect()[0].name == pseudonym("Ada")
    plans = treated._jdf.queryExecution()
    seen = " ".join([plans.toString(), plans.logical().toString(), plans.executedPlan().toJSON()])
    assert "hmac_sha256" in seen
    assert KEY not in seen
    assert KEY.encode().hex() not in seen.lower()
    assert ", ".join(str(byte) for byte in KEY.encode()) not in seen

    define(workspace, PEOPLE)
    land(workspace, "a", person(1, "Ada"))
    workspace.run(spark, "bronze")
    lines = [" ".join(spark_submit.submit_command("silver", "heart_rate", workspace.settings))]
    reports = run_submit.submit("silver", "heart_rate", workspace.settings, {}, lines.append).tables
    assert [report.state for report in reports] == ["written", "written"]
    assert names(workspace) == {1: pseudonym("Ada")}  # the job has the key from its environment
    assert KEY not in "\n".join(lines)
    written = [path for path in Path(workspace.settings.lake).rglob("*") if path.is_file()]
    assert len(written) > 10
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []
    assert KEY not in str(pa.table(tables.dataset(DeltaTable(workspace.lake.events)).to_table()).to_pylist())


@pytest.mark.more
def test_a_copy_does_without_the_columns_of_a_flow_that_waits(spark: SparkSession, workspace: Workspace) -> None:
    """Where the query says that it makes them; where only its data would tell, the copy waits and says for what."""
    workspace.define(
        DEFINITION.replace(
            "silver:", '  late: {path: "${landing}/late", format: json, schemaHints: "k BIGINT"}\nsilver:'
        )
        + """
  people:
    flows:
      early: {sql: "SELECT * FROM STREAM(raw)"}
      later: {sql: "SELECT k, phone FROM STREAM(late)"}
    pii: [name, phone]
    deidentified: {name: drop, phone: mask}
"""
    )
    for folder in ("raw", "late"):
        (workspace.folder / "landing" / folder).mkdir(parents=True)
    land(workspace, "a", {"k": 1, "name": "Ada"}, age=90)
    workspace.run(spark, "bronze", "silver")
    assert workspace.rows("people_deidentified", "k") == [(1,)]
    workspace.edit("pipeline.yaml", '{sql: "SELECT k, phone FROM STREAM(late)"}', "{from: late}")
    land(workspace, "b", {"k": 2, "name": "Bo"}, age=80)
    report = workspace.run(spark, "bronze", "silver")["people_deidentified"]
    assert (report.state, workspace.rows("people_deidentified", "k")) == ("blocked", [(1,)])
    assert report.why.startswith(
        "people has no column phone yet, which must be de-identified: its flow later may add it, and waits"
    )
    workspace.land("late/a.json", [{"k": 3, "phone": "555"}])
    workspace.run(spark, "bronze", "silver")
    assert sorted(workspace.rows("people_deidentified", "k", "phone")) == [(1, "***"), (2, "***"), (3, "***")]
