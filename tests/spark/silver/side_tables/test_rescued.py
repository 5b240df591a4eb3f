"""Values that bronze rescued, and records that it could not parse: no silver table has a NULL in their place."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import ExpectationFailed
from sluicegate.flow.selection import Replay
from sluicegate.flow.streaming import delivery
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import footers, log, tables
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HINTS = "id BIGINT, amount INT, day DATE, at STRUCT<x: INT, y: STRING>, tags ARRAY<INT>, more MAP<STRING, INT>"
BRONZE = f"""
name: heart_rate
bronze:
  raw: {{path: "${{landing}}/raw", format: json, schemaHints: "{HINTS}"}}
"""
# Each with the columns whose value does not fit; None for a text that is no JSON.
LINES: list[tuple[str, set[str] | None]] = [
    ('{"id":1,"amount":5,"day":"2024-01-01","at":{"x":1,"y":"a"},"tags":[1,2],"more":{"a":1}}', set()),
    ('{"id":2,"amount":"x","day":"2024-01-01"}', {"amount"}),
    ('{"id":3,"amount":7,"day":"never"}', {"day"}),
    ('{"id":4,"amount":"y","day":"13.1.2024"}', {"amount", "day"}),
    ('{"id":5,"at":{"x":"far","y":"b"}}', {"at"}),
    ('{"id":6,"at":{"x":6,"y":"b","z":"new"}}', set()),
    ('{"id":7,"tags":[1,"two",3]}', {"tags"}),
    ('{"id":8,"more":{"a":1,"b":"two"}}', {"more"}),
    ('{"id":9,"Amount":"other case","amount":9}', set()),
    ('{"id":10,"Amount":"other case"}', set()),
    ('{"id":11,"bad name;":"no column","amount":11}', set()),
    ('{"id":12,"amount":', None),
    ('{"id":13,"amount":null,"at":null,"tags":[],"more":{}}', set()),
    ('{"id":14,"at":"no struct"}', {"at"}),
    ('{"id":15,"tags":{"no":"array"},"amount":15}', {"tags"}),
]
ALL = frozenset({"id", "amount", "day", "at", "tags", "more"})
TABLES = {
    "star": ("sql: SELECT * FROM STREAM(raw)", ALL),
    "some": ("sql: SELECT id, amount AS sum FROM STREAM(raw)", frozenset({"id", "amount"})),
    "looked": (
        "sql: SELECT r.id, l.amount FROM STREAM(raw) AS r LEFT JOIN names AS l ON l.id = r.id AND r.at.x >= 0",
        frozenset({"id", "at"}),
    ),
    "plain": ("from: raw\n    apply_changes: {keys: [id], sequence_by: source_file}", ALL),
    "made": ("from: raw\n    python: t.py:same", ALL),
    "many": (
        "rows: many\n    sql: SELECT id, amount, n FROM STREAM(raw) LATERAL VIEW explode(array(1, 2)) AS n",
        frozenset({"id", "amount"}),
    ),
    "united": (
        "flows:\n      one: {sql: 'SELECT id, amount FROM STREAM(raw)'}\n"
        "      two: {sql: 'SELECT id, day FROM STREAM(raw)'}",
        frozenset({"id", "amount"}),
    ),
}
PYTHON = "def same(batch, tables):\n    return batch.select('_chunk', '_pos', 'id', 'amount')\n"


def define(workspace: Workspace, tables: dict[str, str], **files: str) -> None:
    names = '  names: {path: "${landing}/names", format: json, schemaHints: "id BIGINT, amount INT"}\n'
    text = "".join(f"  {name}:\n    {body}\n" for name, body in tables.items())
    workspace.define(f"{BRONZE}{names}silver:\n{text}", **files)


def land(workspace: Workspace) -> None:
    workspace.land("raw/a.json", "\n".join(line for line, _ in LINES) + "\n")
    workspace.land("names/a.json", '{"id":1,"amount":100}\n{"id":2,"amount":"bad"}\n')


def expected(read: frozenset[str]) -> dict[int | None, set[str]]:
    """Rules that each record breaks which is not good, by its id."""
    rules: dict[int | None, set[str]] = {}
    for line, misfits in LINES:
        if misfits is None:
            rules[None] = {"record is parsed"}
        elif misfits & read:
            rules[json.loads(line)["id"]] = {f"{name} fits its type" for name in misfits & read}
    return rules


def test_a_record_with_a_misfit_in_a_column_that_is_read_is_quarantined(
    spark: SparkSession, workspace: Workspace
) -> None:
    define(workspace, {name: body for name, (body, _) in TABLES.items()}, t__py=PYTHON)
    land(workspace)
    reports = workspace.run(spark, "bronze", "silver")
    every = {json.loads(line)["id"]: misfits for line, misfits in LINES if misfits is not None}
    for name, (_, read) in TABLES.items():
        wanted = expected(read)
        each = 2 if name in ("many",) else 1
        if name == "united":
            continue
        broken = Counter(
            (key, frozenset(rule for rule in rules if name != "plain" or "is not null" not in rule))
            for key, rules in workspace.rows(f"{name}_quarantine", "id", "_failed_expectations")
        )
        assert broken == Counter({(key, frozenset(rules)): each for key, rules in wanted.items()}), name
        good = {key for (key,) in workspace.rows(name, "id")}
        assert good == every.keys() - wanted.keys(), name
        failed = {rule: of["failed"] for rule, of in reports[name].expectations.items() if "is not null" not in rule}
        assert failed == {r: each * n for r, n in Counter(r for rules in wanted.values() for r in rules).items()}, name
    one, two = expected(frozenset({"id", "amount"})), expected(frozenset({"id", "day"}))
    of_flows = workspace.rows("united_quarantine", "id", "_record_flow", "_failed_expectations")
    found: dict[str, dict[Any, set[str]]] = {"one": {}, "two": {}}
    for key, flow, rules in of_flows:
        found[flow][key] = set(rules)
    assert found == {"one": one, "two": two}


def test_what_is_kept_and_what_fails(spark: SparkSession, workspace: Workspace) -> None:
    define(
        workspace,
        {
            "kept": "rescued: keep\n    sql: SELECT id, amount, day FROM STREAM(raw)",
            "own": "sql: SELECT id, amount, _rescued_data IS NULL AS fits, _corrupt_record AS text FROM STREAM(raw)",
            "own_of_star": "sql: SELECT *, _rescued_data AS others FROM STREAM(raw)",
            "without": "sql: SELECT * EXCEPT (_rescued_data, _corrupt_record) FROM STREAM(raw)",
        },
    )
    land(workspace)
    workspace.run(spark, "bronze", "silver")
    assert len(workspace.rows("kept", "id")) == len(workspace.rows("own", "id")) == len(LINES)
    assert [set(r) for (r,) in workspace.rows("own_of_star_quarantine", "_failed_expectations")] == [
        {"record is parsed"}
    ]
    assert len(workspace.rows("without_quarantine", "id")) == len(expected(ALL))
    define(workspace, {"strict": "rescued: fail\n    sql: SELECT id, amount FROM STREAM(raw)"})
    with pytest.raises(ExpectationFailed, match="amount fits its type"):
        workspace.run(spark, "silver")
    assert {key for (key,) in workspace.rows("strict_rejected", "id")} == {2, 4, None}


@pytest.mark.parametrize(
    "files", [delivery.FEW_FILES, pytest.param(0, marks=pytest.mark.more)], ids=["footers are read", "too many footers"]
)
def test_batches_with_and_without_misfits_in_turn(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """What a batch is held to depends on its own records: those before and after it had nothing that was rescued."""
    monkeypatch.setattr(delivery, "FEW_FILES", files)
    bodies = {"star": TABLES["star"][0], "left_out": "sql: SELECT id, amount FROM STREAM(raw) WHERE amount > 0"}
    define(workspace, bodies)
    fitting = [line for line, misfits in LINES if misfits == set()]
    others = [line for line, misfits in LINES if misfits != set()]
    workspace.land("names/a.json", '{"id":1,"amount":100}\n')
    doubts = []
    for number, lines in enumerate((fitting[:2], others, fitting[2:3])):
        workspace.land(f"raw/{number}.json", "\n".join(lines) + "\n", age=90 - number)
        workspace.run(spark, "bronze", "silver")
        source = workspace.lake.table("bronze", "raw")
        doubts.append(footers.may_have_values(source, _added(source), ("_rescued_data", "_corrupt_record")))
    assert doubts[:2] == [False, True]
    broken = {key: set(rules) for key, rules in workspace.rows("star_quarantine", "id", "_failed_expectations")}
    assert broken == expected(ALL)
    assert {key for (key,) in workspace.rows("left_out_quarantine", "id")} == {2, 4, None}


def _added(source: str) -> list[str]:
    """Data files of a table's last commit."""
    table = tables.table_at(source)
    return [action["add"]["path"] for action in log.actions(source, table.version()) if "add" in action]


def test_normalized_names_in_any_case(spark: SparkSession, workspace: Workspace) -> None:
    """Fields are known by their landed names, and silver by those of the columns."""
    workspace.define(
        'name: heart_rate\nbronze:\n  raw: {path: "${landing}/raw", format: json, columnNames: normalized, '
        'readerCaseSensitive: false, schemaHints: "id INT, order_date DATE"}\n'
        'silver:\n  s: {sql: "SELECT * FROM STREAM(raw)", pii: [order_date]}\n'
    )
    lines = [
        '{"id":1,"Order Date":"2024-01-01"}',
        '{"id":2,"Order Date":"never"}',
        '{"id":4,"Order Date":"2024-01-04","order.date":"never"}',
    ]
    workspace.land("raw/a.json", "\n".join(lines) + "\n", age=90)
    reports = workspace.run(spark, "bronze", "silver")
    workspace.land("raw/b.json", '{"id":3,"ORDER DATE":"never"}\n', age=80)
    workspace.run(spark, "bronze", "silver")
    assert sorted(workspace.rows("s", "id", "order_date")) == [(1, date(2024, 1, 1)), (4, date(2024, 1, 4))]
    rule = ["order_date fits its type"]
    assert sorted(workspace.rows("s_quarantine", "id", "_failed_expectations")) == [(2, rule), (3, rule)]
    # Of two spellings in one batch only one is the column's: a record with the other has no NULL in silver.
    lines = ['{"id":5,"Order Date":"2024-01-05"}', '{"id":6,"ORDER DATE":"2024-01-06"}']
    workspace.land("raw/c.json", "\n".join(lines) + "\n", age=70)
    workspace.run(spark, "bronze", "silver")
    days = dict(workspace.rows("s", "id", "order_date"))
    held_back = {key for (key,) in workspace.rows("s_quarantine", "id")} - {2, 3}
    assert {key: days[key] for key in {5, 6} - held_back} == {
        key: day for key, day in ((5, date(2024, 1, 5)), (6, date(2024, 1, 6))) if key not in held_back
    }
    assert {5, 6} <= days.keys() | held_back
    [sample] = reports["s"].samples
    assert "never" not in str(sample)


CDC = 'schema: "id BIGINT, n BIGINT, amount INT, op STRING"'
TAKES = "apply_changes: {keys: [id], sequence_by: n, apply_as_deletes: op = 'D'}"
SOME = "SELECT id, n, amount + 1 AS amount, op FROM STREAM(raw)"


def test_a_delete_is_held_back_only_by_what_tells_its_key_its_sequence_or_that_it_is_one(
    spark: SparkSession, workspace: Workspace
) -> None:
    """A misfit in another column would leave a row that its source has deleted."""
    workspace.define(
        f'name: heart_rate\nbronze:\n  raw: {{path: "${{landing}}/raw", format: json, {CDC}}}\nsilver:\n'
        f"  plain:\n    from: raw\n    {TAKES}\n"
        f"  queried:\n    {TAKES}\n    flows:\n      one: {{sql: '{SOME}'}}\n"
    )
    rows = [{"id": key, "n": 1, "amount": 1, "op": "I"} for key in range(1, 6)]
    workspace.land("raw/a.json", "".join(json.dumps(row) + "\n" for row in rows), age=90)
    workspace.run(spark, "bronze", "silver")
    changes = [
        '{"id":1,"n":2,"amount":"x","op":"D"}',
        '{"id":2,"n":2,"amount":"x","op":"U"}',
        '{"id":"three","n":2,"amount":1,"op":"D"}',
        '{"id":4,"n":"second","amount":1,"op":"D"}',
        '{"id":5,"n":2,"op":"D"',
    ]
    workspace.land("raw/b.json", "\n".join(changes) + "\n", age=80)
    workspace.run(spark, "bronze", "silver")
    for table in ("plain", "queried"):
        assert sorted(workspace.rows(table, "id")) == [(2,), (3,), (4,), (5,)], table
        broken = [
            {rule for rule in rules if "null" not in rule}
            for (rules,) in workspace.rows(f"{table}_quarantine", "_failed_expectations")
        ]
        wanted = ["amount fits its type", "id fits its type", "n fits its type", "record is parsed"]
        assert sorted(map(sorted, broken)) == [[rule] for rule in wanted], table


LEFT_OUT = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "id BIGINT, kind STRING, amount INT, tags ARRAY<INT>"}
  names: {path: "${landing}/names", format: json, schemaHints: "id BIGINT, name STRING"}
silver:
  compared: {sql: "SELECT id, kind, amount FROM STREAM(raw) WHERE kind = 'a' AND amount > 0"}
  present: {sql: "SELECT id FROM STREAM(raw) AS r WHERE (r.kind <> 'b') AND r.amount IS NOT NULL"}
  either: {sql: "SELECT id FROM STREAM(raw) WHERE kind = 'c' OR amount > 0"}
  joined: {sql: "SELECT r.id FROM STREAM(raw) AS r JOIN names AS n ON n.id = r.id WHERE n.name > '' AND r.kind = 'a'"}
  tags: {rows: many, sql: "SELECT id, t FROM STREAM(raw) LATERAL VIEW explode(tags) AS t"}
  made: {from: raw, python: "t.py:some"}
  kept: {rescued: keep, sql: "SELECT id FROM STREAM(raw) WHERE amount > 0"}
  flows:
    flows:
      a: {sql: "SELECT id, amount FROM STREAM(raw) WHERE kind = 'a' AND amount > 0"}
      b: {sql: "SELECT id, amount FROM STREAM(raw) WHERE kind = 'b' AND amount > 0"}
"""
FUNCTION = "def some(batch, tables):\n    return batch.where('amount > 0').select('_chunk', '_pos', 'id', 'amount')\n"
FIRST = [
    '{"id":1,"kind":"a","amount":5,"tags":[1]}',
    '{"id":2,"kind":"a","amount":"x","tags":[2]}',
    '{"id":3,"kind":"b","amount":"x","tags":[3]}',
    '{"id":4,"kind":"a","amount":-5,"new":4}',
    '{"id":5,"kind":"a","amount":null,"tags":[]}',
    '{"id":"six","kind":"a","amount":6}',
    '{"id":7,"kind":"a","amount":7,"tags":"none"}',
    '{"id":8,"kind":"b","amount":8}',
    '{"id":9,"kind":"a",',
]
AMOUNT, ID, TAGS, PARSED = "amount fits its type", "id fits its type", "tags fits its type", "record is parsed"
# What each table has, and what is quarantined of it: by the text of the record's id, with the rules.
OF_TABLES: dict[str, tuple[set[Any], list[tuple[str, list[str]]]]] = {
    "compared": ({1, 7}, [("2", [AMOUNT]), ("six", [ID]), ("", [PARSED])]),
    "present": ({1, 4, 7}, [("2", [AMOUNT]), ("six", [ID]), ("", [PARSED])]),
    "either": ({1, 7, 8}, [("2", [AMOUNT]), ("3", [AMOUNT]), ("six", [ID]), ("", [PARSED])]),
    "joined": ({1, 2, 7}, [("six", [ID]), ("", [PARSED])]),
    "tags": ({1, 2, 3}, [("7", [TAGS]), ("", [PARSED])]),
    "made": ({1, 8}, [("2", [AMOUNT]), ("3", [AMOUNT]), ("six", [ID]), ("7", [TAGS]), ("", [PARSED])]),
    "kept": ({1, 7, 8, None}, []),
    "flows": ({1, 7, 8}, [("2", [AMOUNT]), ("3", [AMOUNT]), ("six", [ID]), ("", [PARSED]), ("", [PARSED])]),
}


def left_out(workspace: Workspace, table: str) -> list[tuple[str, list[str]]]:
    """Landed id of each quarantined record, with its rules."""
    broken = []
    for text, rules in workspace.rows(f"{table}_quarantine", "_record", "_failed_expectations"):
        record = json.loads(text)
        rescued = json.loads(record.get("_rescued_data", "{}"))
        broken.append((str(record.get("id", rescued.get("id", ""))), rules))
    return sorted(broken)


def test_a_record_that_is_left_out_for_a_rescued_value_is_quarantined(
    spark: SparkSession, workspace: Workspace
) -> None:
    """By a WHERE, an inner join, an explode or a function; not one that another condition leaves out."""
    workspace.define(LEFT_OUT, t__py=FUNCTION)
    workspace.land("raw/a.json", "\n".join(FIRST) + "\n", age=90)
    workspace.land("names/a.json", "".join(f'{{"id":{key},"name":"n"}}\n' for key in (1, 2, 7)), age=90)
    reports = workspace.run(spark, "bronze", "silver")
    for table, (good, broken) in OF_TABLES.items():
        assert {key for (key,) in workspace.rows(table, "id")} == good, table
        assert left_out(workspace, table) == sorted(broken), table
        assert reports[table].quarantined == len(broken), table
    assert status.verify(workspace.definition, workspace.settings) == []
    assert (2, "a") in workspace.rows("compared_quarantine", "id", "kind")  # what the query hands on

    workspace.land("raw/b.json", '{"id":12,"kind":"a","amount":"y"}\n{"id":13,"kind":"b","amount":3}\n', age=80)
    workspace.run(spark, "bronze", "silver")
    for table in ("compared", "flows", "made"):
        assert left_out(workspace, table) == sorted([*OF_TABLES[table][1], ("12", [AMOUNT])]), table
    assert Counter(workspace.rows("compared_set_aside", "reason")) == {("filtered",): 5}
    assert status.verify(workspace.definition, workspace.settings) == []

    before = workspace.content()
    for table in ("compared", "tags", "flows"):
        choice = Replay(table, everything=True)
        job = Job(workspace.definition, workspace.lake, "silver", {"run_id": "r"}, spark, only=table, choice=choice)
        [report] = job.run().tables
        assert report.unchanged, table
    assert workspace.content() == before

    workspace.edit("pipeline.yaml", "rescued: keep, sql", "rescued: fail, sql")
    job = Job(workspace.definition, workspace.lake, "silver", {"run_id": "f"}, spark, only="kept", full_refresh=True)
    with pytest.raises(ExpectationFailed, match="amount fits its type"):
        job.run()


def test_a_sample_may_have_what_python_has_not(spark: SparkSession, workspace: Workspace) -> None:
    """A day after the year 9999 would stop every run of the table from then on."""
    workspace.define(
        'name: heart_rate\nbronze:\n  raw: {path: "${landing}/raw", format: json, '
        'schemaHints: "id INT, day DATE, times ARRAY<TIMESTAMP>, amount INT"}\n'
        'silver:\n  s: {sql: "SELECT * FROM STREAM(raw)", expect_all_or_quarantine: {near: "year(day) < 3000"}}\n'
    )
    far = '{"id":2,"day":"10000-01-01","times":["-0044-03-15 10:00:00"],"amount":"x"}'
    workspace.land("raw/a.json", '{"id":1,"day":"2024-01-01"}\n' + far + "\n")
    report = workspace.run(spark, "bronze", "silver")["s"]
    assert (report.written, report.quarantined) == (1, 1)
    assert report.samples[0]["row"] == {"day": "+10000-01-01", "amount": "x"}
