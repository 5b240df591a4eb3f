"""What flows of a table may be, what its columns are then, and what follows such a table."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import SchemaMismatch, UserError
from sluicegate.flow.selection import Interval, Replay
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables
from sluicegate.monitor import backlog, estimate, plan, status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BRONZE = """\
name: heart_rate
bronze:
  eu: {path: "${landing}/eu", format: json, allowOverwrites: true, schemaHints: "id INT, price INT"}
  us: {path: "${landing}/us", format: json, allowOverwrites: true, schemaHints: "id BIGINT, price BIGINT"}
  odd: {path: "${landing}/odd", format: json, schemaHints: "id STRING"}
"""
FLOWS = """\
silver:
  sales:
    flows:
      eu: {from: eu}
      us: {sql: "SELECT Id, price, state, 'USD' AS currency FROM STREAM(us)"}
    keys: [id]
    expectations: {paid: {expect_or_quarantine: price > 0}}
"""
UNION = """\
silver:
  sales:
    sql: |
      SELECT id, price AS amount FROM STREAM(eu)
      UNION ALL
      SELECT id, -price FROM STREAM(us)
"""


def begun(workspace: Workspace, text: str, **files: str) -> None:
    workspace.define(BRONZE + text, **files)
    for folder in ("eu", "us", "odd"):
        (workspace.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)


def land(workspace: Workspace, name: str, *records: dict[str, Any], age: float = 60) -> None:
    workspace.land(f"{name}.json", "\n".join(json.dumps(one) for one in records), age)


def run(spark: SparkSession, workspace: Workspace, *layers: str) -> dict[str, Any]:
    reports = workspace.run(spark, *(layers or ("bronze", "silver")))
    assert status.verify(workspace.definition, workspace.settings) == []
    return reports


def kinds(workspace: Workspace, table: str) -> dict[str, str]:
    found = tables.table_at(workspace.uri(table))
    return {one.name: str(one.type.type) for one in found.schema().fields if not one.name.startswith("_")}


def test_columns_are_matched_by_name_and_each_flow_adds_up(spark: SparkSession, workspace: Workspace) -> None:
    """Also a column of the other case; a flow whose source comes later, with a wider type; and who stands first."""
    begun(workspace, FLOWS)
    land(workspace, "eu/a", {"id": 1, "price": 5}, {"id": 2, "price": -1}, {"id": 1, "price": 9})
    first = run(spark, workspace)["sales"]
    assert (first.read, first.written, first.quarantined, first.duplicates) == (3, 1, 1, 1)
    assert kinds(workspace, "sales") == {"id": "integer", "price": "integer"}
    land(workspace, "us/a", {"id": 1, "price": 7, "state": "NY"}, {"id": 3, "price": 2**40, "state": "CA"})
    done = run(spark, workspace)["sales"]
    assert (done.state, done.why) == ("rebuilt", "id changes from INT to BIGINT")
    assert kinds(workspace, "sales") == {"id": "long", "price": "long", "state": "string", "currency": "string"}
    assert sorted(workspace.rows("sales", "id", "price", "currency", "_record_flow")) == [
        (1, 5, None, "eu"), (3, 2**40, "USD", "us"),
    ]  # fmt: skip
    assert done.flows["us"] == {"read": 2, "written": 1, "quarantined": 0, "dropped": 0, "duplicates": 1}
    assert "         us: 2 read = 1 written + 0 quarantined + 0 dropped + 1 duplicates" in done.remarks()
    # A flow of which nothing new came is not read, and the other one alone goes on.
    land(workspace, "us/b", {"id": 4, "price": 1, "state": "CA"})
    done = run(spark, workspace)["sales"]
    assert (done.state, done.read, done.total) == ("written", 1, 3)
    # A record of the flow that stands first comes later, and has the key all the same.
    land(workspace, "eu/b", {"id": 4, "price": 8})
    assert run(spark, workspace)["sales"].written == 1
    assert (4, 8, "eu") in workspace.rows("sales", "id", "price", "_record_flow")
    assert sorted(workspace.rows("sales_set_aside", "_record_flow", "reason")) == [
        ("eu", "duplicate"), ("us", "duplicate"), ("us", "duplicate"),
    ]  # fmt: skip


@pytest.mark.release
def test_a_source_that_is_made_again_is_read_again_and_no_other(spark: SparkSession, workspace: Workspace) -> None:
    """Its records are exchanged by identity; and a flow that goes takes its rows with it, by one commit."""
    begun(workspace, FLOWS.replace("SELECT Id", "SELECT id"))
    land(workspace, "eu/a", {"id": 1, "price": 5}, {"id": 2, "price": -1})
    land(workspace, "us/a", {"id": 1, "price": 7, "state": "NY"}, {"id": 3, "price": 6, "state": "CA"})
    run(spark, workspace)
    before = tables.table_at(workspace.uri("sales")).version()
    again = spark.read.format("delta").load(workspace.uri("eu"))
    again.write.format("delta").mode("overwrite").save(workspace.uri("eu"))
    [waiting] = backlog.waiting_tables(workspace.definition, workspace.settings)
    assert waiting.what.startswith("2 rows of eu wait (eu was changed by WRITE in version")
    done = run(spark, workspace, "silver")["sales"]
    assert (done.state, done.inserted, done.updated, done.deleted) == ("again", 0, 0, 0)
    assert {name: its["read"] for name, its in done.flows.items()} == {"eu": 2, "us": 1}  # one shares a key
    workspace.edit("pipeline.yaml", "      eu: {from: eu}\n", "")
    [work] = [one for one in plan.pending(workspace.definition, workspace.settings).tables if one.table == "sales"]
    assert work.progress.why == "the flow eu is no longer in the definition"
    done = run(spark, workspace, "silver")["sales"]
    assert sorted(workspace.rows("sales", "id", "price", "_record_flow")) == [(1, 7, "us"), (3, 6, "us")]
    assert workspace.rows("sales_quarantine") == workspace.rows("sales_set_aside") == []
    assert tables.table_at(workspace.uri("sales")).version() == before + 2
    assert not done.mixed


def test_the_first_of_two_branches_over_one_table_is_taken_away(spark: SparkSession, workspace: Workspace) -> None:
    """The second gets its name: rows of the first must go, and those of the second stay."""
    dear = "SELECT id, price AS amount FROM STREAM(eu) WHERE price > 5 UNION ALL "
    rest = "SELECT id, price AS amount FROM STREAM(eu) WHERE price <= 5 UNION ALL SELECT id, -price FROM STREAM(us)"
    begun(workspace, f"silver:\n  sales: {{sql: '{dear}{rest}'}}\n")
    land(workspace, "eu/a", {"id": 1, "price": 5}, {"id": 2, "price": 9})
    land(workspace, "us/a", {"id": 3, "price": 7})
    run(spark, workspace)
    assert sorted(workspace.rows("sales", "id", "amount")) == [(1, 5), (2, 9), (3, -7)]
    workspace.edit("pipeline.yaml", dear, "")
    [work] = [one for one in plan.pending(workspace.definition, workspace.settings).tables if one.table == "sales"]
    done = run(spark, workspace, "silver")["sales"]
    assert (work.progress.kind, done.state, done.why) == ("whole", "rebuilt", work.progress.why)
    assert sorted(workspace.rows("sales", "id", "amount")) == [(1, 5), (3, -7)]
    # Then one flow is left: the rows of the other table go, which plan says beforehand.
    workspace.edit("pipeline.yaml", " UNION ALL SELECT id, -price FROM STREAM(us)", "")
    assert estimate.plan(workspace.definition, workspace.settings).deleted["sales"] == {"us": 1}
    run(spark, workspace, "silver")
    assert workspace.rows("sales", "id", "amount") == [(1, 5)]


@pytest.mark.more
def test_one_flow_becomes_several_by_union_all_and_one_again(spark: SparkSession, workspace: Workspace) -> None:
    """Columns go by their places, types are widened; the table, its copy, gold and what reads it row by row follow."""
    others = (
        "    pii: [id]\n    deidentified: {id: mask}\n"
        "  big: {sql: 'SELECT id, amount FROM STREAM(sales) WHERE amount > 1'}\n"
        "  all_of_it:\n    flows:\n      sales: {from: sales}\n"
        "      odd: {sql: 'SELECT TRY_CAST(id AS BIGINT) AS id FROM STREAM(odd)'}\n"
        "gold:\n  total: {sql: 'SELECT count(*) AS n, sum(amount) AS amount FROM sales'}\n"
    )
    one = "silver:\n  sales:\n    sql: SELECT id, price AS amount FROM STREAM(eu)\n"
    begun(workspace, one + others)
    land(workspace, "eu/a", {"id": 1, "price": 5})
    land(workspace, "us/a", {"id": 1, "price": 7}, {"id": 3, "price": -(2**40)})
    land(workspace, "odd/a", {"id": "9"})
    layers = ("bronze", "silver", "gold")
    run(spark, workspace, *layers)
    begun(workspace, UNION + others)
    done = run(spark, workspace, *layers)
    assert [done[name].why for name in ("sales", "big", "all_of_it")] == [
        "it is filled by several flows now", "sales is filled by several flows now",
        "amount changes from INT to BIGINT",
    ]  # fmt: skip
    assert sorted(workspace.rows("sales", "id", "amount")) == [(1, -7), (1, 5), (3, 2**40)]
    assert sorted(workspace.rows("sales_deidentified", "id", "amount")) == [(None, -7), (None, 5), (None, 2**40)]
    assert sorted(workspace.rows("big", "amount", "_record_flow")) == [(5, "eu"), (2**40, "us")]
    assert sorted(workspace.rows("all_of_it", "id", "_record_flow")) == [
        (1, "sales/eu"), (1, "sales/us"), (3, "sales/us"), (9, "odd"),
    ]  # fmt: skip
    assert workspace.rows("total", "n", "amount") == [(3, 2**40 - 2)]
    land(workspace, "us/a", {"id": 3, "price": -1}, age=30)
    run(spark, workspace, *layers)
    assert sorted(workspace.rows("all_of_it", "id", "_record_flow")) == [(1, "sales/eu"), (3, "sales/us"), (9, "odd")]
    assert workspace.rows("total", "n", "amount") == [(2, 6)]
    begun(workspace, one + others)
    assert run(spark, workspace, *layers)["sales"].why == "it is filled by one flow now"
    assert workspace.rows("big", "amount") == [(5,)]


PYTHON = """\
silver:
  lines:
    rows: many
    flows:
      eu: {from: eu, python: "t.py:twice"}
      us: {sql: "SELECT id, explode(array(price, price)) AS price FROM STREAM(us)"}
  picked:
    flows:
      lines: {from: lines}
      odd: {sql: "SELECT TRY_CAST(id AS BIGINT) AS id, CAST(NULL AS BIGINT) AS price FROM STREAM(odd)"}
"""
TWICE = """
def twice(batch, tables):
    made = batch.selectExpr("_chunk", "_pos", "id", "price")
    return made.unionByName(made.selectExpr("_chunk", "_pos", "id", "price + 1 AS price"))
"""


@pytest.mark.release
def test_python_many_rows_and_a_flow_over_rows_with_numbers(spark: SparkSession, workspace: Workspace) -> None:
    """The function need not keep the flow; rows of one flow have numbers in their records, and those of another 0."""
    begun(workspace, PYTHON, t__py=TWICE)
    land(workspace, "eu/a", {"id": 1, "price": 5})
    land(workspace, "us/a", {"id": 1, "price": 7})
    land(workspace, "odd/a", {"id": "9"}, {"id": "8"})
    done = run(spark, workspace)
    assert (done["lines"].read, done["lines"].rows, done["lines"].flows["eu"]["rows"]) == (2, 4, 2)
    assert sorted(workspace.rows("lines", "price", "_record_row", "_record_flow")) == [
        (5, 1, "eu"), (6, 2, "eu"), (7, 1, "us"), (7, 2, "us"),
    ]  # fmt: skip
    assert sorted(workspace.rows("picked", "id", "_record_flow", "_record_row")) == [
        (1, "lines/eu", 1), (1, "lines/eu", 2), (1, "lines/us", 1), (1, "lines/us", 2), (8, "odd", 0), (9, "odd", 0),
    ]  # fmt: skip
    land(workspace, "us/a", {"id": 2, "price": 7}, age=30)
    run(spark, workspace)
    assert sorted(workspace.rows("picked", "id", "_record_flow")) == [
        (1, "lines/eu"), (1, "lines/eu"), (2, "lines/us"), (2, "lines/us"), (8, "odd"), (9, "odd"),
    ]  # fmt: skip


@pytest.mark.more
def test_types_that_no_other_holds_stop_the_run_with_a_sentence(spark: SparkSession, workspace: Workspace) -> None:
    """Nothing is written; a declared type, or a CAST, settles it, and what does not fit it is quarantined."""
    begun(workspace, "silver:\n  t:\n    flows: {us: {from: us}, odd: {from: odd}}\n")
    land(workspace, "us/a", {"id": 1, "price": 7})
    land(workspace, "odd/a", {"id": "9"}, {"id": "x"})
    with pytest.raises(SchemaMismatch, match="id of t is BIGINT by the flow us, and STRING by the flow odd"):
        workspace.run(spark, "bronze", "silver")
    assert workspace.rows("t") == []
    workspace.edit("pipeline.yaml", "  t:\n", '  t:\n    schema: "price DECIMAL(9,2), id BIGINT"\n')
    assert run(spark, workspace)["t"].quarantined == 1
    assert sorted(workspace.rows("t", "id", "price")) == [(1, Decimal(7)), (9, None)]


@pytest.mark.more
def test_a_restore_and_a_lookup_that_no_flow_can_follow(spark: SparkSession, workspace: Workspace) -> None:
    """The table is made again from all its flows; and a definition that changed is told of, but not by a new flow."""
    text = "silver:\n  t:\n    flows:\n      us: {sql: us.sql}\n"
    query = "SELECT u.id, e.price FROM STREAM(us) AS u LEFT JOIN eu AS e ON e.id < u.id"
    begun(workspace, text, us__sql=query)
    land(workspace, "us/a", {"id": 2, "price": 7})
    land(workspace, "eu/a", {"id": 1, "price": 5})
    run(spark, workspace)
    workspace.edit("pipeline.yaml", "      us: {sql: us.sql}\n", "      us: {sql: us.sql}\n      eu: {from: eu}\n")
    done = run(spark, workspace)["t"]
    assert (done.state, done.why, done.mixed) == ("written", "the flow eu is new", False)
    land(workspace, "eu/b", {"id": 0, "price": 6})
    done = run(spark, workspace, "bronze")
    workspace.edit("us.sql", "e.id < u.id", "e.id < u.id AND e.id > 0")
    done = run(spark, workspace)["t"]
    assert (done.state, done.why, done.mixed) == ("rebuilt", "eu changed", False)
    workspace.edit("us.sql", "AND e.id > 0", "AND e.id > 1")
    land(workspace, "us/b", {"id": 9, "price": 7})
    assert run(spark, workspace)["t"].mixed
    spark.sql(f"RESTORE TABLE delta.`{workspace.uri('t')}` TO VERSION AS OF 0")
    done = run(spark, workspace)["t"]
    assert done.why.startswith("it was restored in version")
    assert sorted(workspace.rows("t", "id", "price", "_record_flow")) == [
        (0, 6, "eu"), (1, 5, "eu"), (2, None, "us"), (9, None, "us"),
    ]  # fmt: skip


MANY = """\
params:
  least: {type: int, default: 0}
views:
  odd_ones: "SELECT CAST(id AS BIGINT) AS of, state AS name FROM odd"
silver:
  lines:
    rows: many
    comment: prices of both shops
    column_comments: {price: in the shop's currency}
    flows:
      us: {sql: "SELECT id, 'us' AS shop, explode(array(price, -price)) AS price FROM STREAM(us)"}
      eu:
        sql: |
          SELECT o.name, e.id, p AS price
          FROM STREAM(eu) AS e LEFT JOIN odd_ones AS o ON o.of = e.id LATERAL VIEW explode(array(price, -price)) AS p
    expectations: {paid: {expect_or_quarantine: "price > ${param:least}"}}
"""


@pytest.mark.more
def test_broken_rows_of_many_a_view_a_parameter_and_comments(spark: SparkSession, workspace: Workspace) -> None:
    """The first broken row of a record has its text, whichever flow brought it; the view's table may change."""
    begun(workspace, MANY)
    land(workspace, "odd/a", {"id": "1", "state": "one"})
    land(workspace, "eu/a", {"id": 1, "price": 5})
    land(workspace, "us/a", {"id": 1, "price": 7})
    run(spark, workspace)

    def broken() -> list[Any]:
        rows = workspace.rows("lines_quarantine", "_record_flow", "_record_row", "_record")
        return sorted((flow, row, None if text is None else json.loads(text)["price"]) for flow, row, text in rows)

    assert broken() == [("eu", 1, 5), ("us", 1, 7)]
    assert sorted(workspace.rows("lines", "_record_flow", "_record_row", "price", "name")) == [
        ("eu", 2, 5, "one"), ("us", 2, 7, None),
    ]  # fmt: skip
    land(workspace, "eu/a", {"id": 2, "price": -6}, age=30)
    assert run(spark, workspace)["lines"].state == "again"  # the record that the file had before goes
    assert broken() == [("eu", 1, -6), ("us", 1, 7)]
    land(workspace, "odd/b", {"id": "2", "state": "two"})
    assert run(spark, workspace)["lines"].why == "odd changed"
    assert broken() == [("eu", 1, -6), ("us", 1, 7)]
    assert sorted(workspace.rows("lines", "_record_flow", "price", "name")) == [("eu", 6, "two"), ("us", 7, None)]
    there = tables.delta_table(workspace.uri("lines"))
    assert there is not None
    assert there.metadata().description == "prices of both shops"
    comments = {field.name: (field.metadata or {}).get("comment") for field in there.schema().fields}
    assert comments["price"] == "in the shop's currency"


GROWING = """\
silver:
  sales:
    flows:
      us: {sql: "SELECT id, at, price, more FROM STREAM(us)"}
      eu: {sql: "SELECT Id, AT, price, more, 10 - u AS U FROM STREAM(eu)"}
    keys: [id]
    sequence_by: u
    event_time: at
    expectations: {paid: {expect_or_quarantine: price > 0}}
"""


@pytest.mark.release
def test_fields_and_sequences_grow_and_the_definition_spells_columns(spark: SparkSession, workspace: Workspace) -> None:
    """Whichever flow's source is there first; and a replay that is to write nothing does not make the table again."""
    hints = "id BIGINT, at TIMESTAMP, price INT, u"
    text = BRONZE.replace("id INT, price INT", f"{hints} INT").replace("id BIGINT, price BIGINT", f"{hints} BIGINT")
    workspace.define(text + GROWING)
    for folder in ("eu", "us", "odd"):
        (workspace.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)

    def sale(number: int, price: int, u: int, **more: Any) -> dict[str, Any]:
        return {"id": number, "at": "1970-01-01T00:30:00Z", "price": price, "u": u, "more": more}

    land(workspace, "eu/a", sale(1, 1, 3, a=1))
    run(spark, workspace)
    assert list(kinds(workspace, "sales")) == ["id", "at", "price", "more", "u"]
    # A field that the table does not have yet, in few rows of one flow.
    land(workspace, "eu/b", sale(2, 2, 4, a=1, b="x"))
    done = run(spark, workspace)["sales"]
    assert (done.state, done.read) == ("written", 1)
    hour = Interval.parse("1970-01-01T00:00", "1970-01-01T01:00")
    [again] = Job(workspace.definition, workspace.lake, "silver", {}, spark, only="sales", choice=hour).run().tables
    assert (again.read, again.unchanged) == (2, True)
    # The other flow's sequence, which its query does not select, is of a wider type.
    land(workspace, "us/a", sale(1, 7, 2**40, a=3), sale(2, 8, 5), sale(3, -1, 1))
    run(spark, workspace, "bronze")
    replay = Replay("sales", everything=True, validate=True)
    with pytest.raises(UserError, match="this would rebuild sales"):
        Job(workspace.definition, workspace.lake, "silver", {}, spark, only="sales", choice=replay).run()
    assert sorted(workspace.rows("sales", "id", "price")) == [(1, 1), (2, 2)]
    done = run(spark, workspace, "silver")["sales"]
    assert (done.state, done.why) == ("rebuilt", "u changes from INT to BIGINT")
    assert sorted(workspace.rows("sales", "id", "price", "_sequence")) == [(1, 7, 2**40), (2, 2, 6)]
    assert {number: more["b"] for number, more in workspace.rows("sales", "id", "more")} == {1: None, 2: "x"}
    # What a batch of former numbers wrote beside it does not keep out that of a table that was moved away.
    shutil.rmtree(workspace.uri("sales"))
    run(spark, workspace)
    land(workspace, "us/b", sale(4, -1, 1), sale(5, 5, 1))
    run(spark, workspace)
    assert sorted(workspace.rows("sales_quarantine", "id")) == [(3,), (4,)]
