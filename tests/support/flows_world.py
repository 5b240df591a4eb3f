"""A pipeline with tables that several flows fill, and plain Python that says what these tables hold.

The oracle shares no code with what is tested. Files are read in the order of their modification times: whoever lands
files gives each a later time than all before, a file that is landed again too.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables as lakes
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.flow.selection import Choice
    from sluicegate.flow.table_report import TableReport

HINTS = "id BIGINT, k BIGINT, n BIGINT, s BIGINT, u BIGINT, v STRING"
DEFINITION = f"""
name: heart_rate
bronze:
  eu: {{path: "${{landing}}/eu", format: json, allowOverwrites: true, schemaHints: "{HINTS}"}}
  us: {{path: "${{landing}}/us", format: json, allowOverwrites: true, schemaHints: "{HINTS}"}}
  own:
    path: ${{landing}}/own
    format: json
    allowOverwrites: true
    schema: "id BIGINT, k BIGINT, at TIMESTAMP, v INT, u BIGINT, x STRING"
  tags_raw: {{path: "${{landing}}/tags", format: json, allowOverwrites: true, schemaHints: "n BIGINT, tag STRING"}}
silver:
  tags: {{sql: "SELECT n, tag FROM STREAM(tags_raw) AS g", keys: [n]}}
  t:
    flows:
FLOWS
    KEYS
    event_time: at
    expectations:
      big: {{expect_or_quarantine: v > 0}}
      small: {{expect_or_drop: v < 100}}
      known: {{expect_or_quarantine: "tag IS NOT NULL OR x IS NOT NULL"}}
MORE
"""
FLOWS = {
    "eu": """\
      eu:
        sql: >-
          SELECT r.id, r.k, m.tag, TIMESTAMP_SECONDS(r.s) AS at, CAST(r.v AS INT) AS v, r.u
          FROM STREAM(eu) AS r LEFT JOIN tags AS m ON r.n = m.n
""",
    "us": """\
      us:
        sql: >-
          SELECT 'us' AS x, r.id, r.u, r.k, CAST(r.v AS SMALLINT) AS v, TIMESTAMP_SECONDS(r.s) AS at
          FROM STREAM(us) AS r WHERE r.k IS DISTINCT FROM 9
""",
    "own": "      own: {from: own}\n",
}
MORE = """\
  h:
    from: t
    apply_changes: {keys: [k], sequence_by: u, stored_as_scd_type: 2, column_list: [k, tag, v]}
  c:
    flows:
      eu: {from: eu}
      us: {sql: "SELECT k, u, v FROM STREAM(us)"}
    apply_changes: {keys: [k], sequence_by: u, stored_as_scd_type: 2, column_list: [k, v]}
"""
KEYS = {"first": "keys: [k]", "latest": "keys: [k]\n    sequence_by: u"}
COLUMNS = ("id", "k", "tag", "at", "v", "u", "x")
FOLDERS = ("eu", "us", "own")
Order = Literal["first", "latest", "every"]

# A record's place in the order of arrival: that of its flow, its file's time and path, and the line.
Arrival = tuple[Any, ...]


@dataclass
class World(Workspace):
    """A workspace with that pipeline, and a clock by which each file is landed later than the one before.

    Attributes:
        order: which of several rows with one key wins; ``every``: there are no keys.
        flows: the flows of table ``t`` by today's definition, in their order.
        more: whether there are the tables ``h`` and ``c``.
    """

    order: Order = "first"
    flows: tuple[str, ...] = FOLDERS
    more: bool = True
    clock: int = 0

    def __post_init__(self) -> None:
        for folder in (*FOLDERS, "tags"):
            (self.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)
        self.redefine(self.flows)

    def redefine(self, flows: tuple[str, ...]) -> None:
        """Edits which flows there are."""
        self.flows = flows
        text = DEFINITION.replace("FLOWS\n", "".join(FLOWS[flow] for flow in flows))
        text = text.replace("    KEYS\n", "" if self.order == "every" else f"    {KEYS[self.order]}\n")
        for name in ("tag", "x"):
            if not any(name in _columns(flow) for flow in flows):
                text = text.replace(f"{name} IS NOT NULL", "false")
        listed = [c for c in ("k", "tag", "v") if any(c in _columns(flow) for flow in flows)]
        more = MORE.replace("[k, tag, v]", f"[{', '.join(listed)}]")
        self.define(text.replace("MORE\n", more if self.more else ""))

    def put(self, file: str, *records: dict[str, Any]) -> Path:
        """Lands a file, or lands it again."""
        self.clock += 1
        path = self.folder / "landing" / f"{file}.json"
        path.write_text("\n".join(json.dumps(one) for one in records))
        then = int(time.time()) - 50_000 + self.clock
        os.utime(path, (then, then))
        return path

    def take_in(
        self, spark: SparkSession | None, *layers: str, only: str | None = None, choice: Choice | None = None
    ) -> dict[str, TableReport]:
        """Runs bronze and silver, or some layers or one table, as jobs do."""
        reports: dict[str, TableReport] = {}
        for layer in layers or ("bronze", "silver"):
            job = Job(self.definition, self.lake, layer, {"run_id": "test"}, spark, only=only, choice=choice)
            reports |= {table.table: table for table in job.run().tables}
        return reports

    def held(self) -> dict[str, Counter[Any]]:
        """What the tables hold, in the oracle's words."""
        found = {
            "t": Counter(self._values("t", *COLUMNS, "_record_flow")),
            "quarantine": Counter(
                (*row[:-1], tuple(sorted(row[-1])))
                for row in self._values("t_quarantine", *COLUMNS, "_record_flow", "_failed_expectations")
            ),
            "aside": Counter(self._values("t_set_aside", "_record_flow", "reason")),
        }
        if self.more:
            found["h"] = Counter(self._values("h", "k", "tag", "v", "__START_AT", "__END_AT"))
            found["c"] = Counter(self._values("c", "k", "v", "__START_AT", "__END_AT"))
        return found

    def names(self, table: str) -> list[str]:
        """Columns of a table; none if there is none."""
        found = lakes.delta_table(self.uri(table))
        return [one.name for one in found.schema().fields] if found is not None else []

    def _values(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Rows of a table; a column that none of its flows makes is NULL."""
        there = [column for column in columns if column in self.names(table)]
        rows = [dict(zip(there, row, strict=True)) for row in self.rows(table, *there)]
        return [tuple(row.get(column) for column in columns) for row in rows]

    def assert_right(self) -> None:
        """All tables are those that today's definition makes of the landed files, and all adds up."""
        found = expected(self.folder / "landing", self.order, self.flows)
        assert self.held() == {table: rows for table, rows in found.items() if table not in ("h", "c") or self.more}
        assert status.verify(self.definition, self.settings) == []


def _columns(flow: str) -> tuple[str, ...]:
    return {"eu": ("id", "k", "tag", "at", "v", "u"), "us": ("x", "id", "u", "k", "v", "at")}.get(
        flow, ("id", "k", "at", "v", "u", "x")
    )


@dataclass
class _Row:
    flow: str
    arrival: Arrival
    values: dict[str, Any]
    broken: set[str] = field(default_factory=set)
    place: str = "t"

    @property
    def tuple(self) -> tuple[Any, ...]:
        return (*(self.values.get(column) for column in COLUMNS), self.flow)


def expected(landing: Path, order: Order, flows: tuple[str, ...]) -> dict[str, Counter[Any]]:
    """Rows of ``t``, its quarantine and its set-aside, and those of the tables ``h`` and ``c``."""
    rows, filtered = evaluated(landing, order, flows)
    good = [row for row in rows if row.place == "t"]
    winners = _winners(good, order)
    lost = "superseded" if order == "latest" else "duplicate"
    won = {id(row) for row in winners}
    aside = [(row.flow, "dropped") for row in rows if row.place == "aside"] + filtered
    aside += [(row.flow, lost) for row in good if id(row) not in won]
    return {
        "t": Counter(row.tuple for row in winners),
        "quarantine": Counter((*row.tuple, tuple(sorted(row.broken))) for row in rows if row.place == "quarantine"),
        "aside": Counter(aside),
        "h": Counter(_versions([_Row("", (row.flow, *row.arrival), row.values) for row in winners], ("tag", "v"))),
        "c": Counter(_versions([*_of_c(landing)], ("v",))),
    }


def evaluated(landing: Path, order: Order, flows: tuple[str, ...]) -> tuple[list[_Row], list[tuple[str, str]]]:
    """The rows of all flows before those with one key are settled, and the records that a query leaves out."""
    tags: dict[Any, Any] = {}
    for _, record in _records(landing / "tags"):
        if record.get("n") is not None:
            tags.setdefault(record["n"], record.get("tag"))
    found, filtered = [], []
    for place, flow in enumerate(flows):
        for arrival, record in _records(landing / flow):
            if flow == "us" and record.get("k") == 9:
                filtered.append((flow, "filtered"))
                continue
            found.append(_row(flow, (place, *arrival), record, tags, order))
    return found, filtered


def _row(flow: str, arrival: Arrival, record: dict[str, Any], tags: dict[Any, Any], order: Order) -> _Row:
    values = {name: record.get(name) for name in ("id", "k", "u")}
    text, seconds = record.get("v"), record.get("s")
    broken = set()
    if flow == "own":
        values |= {"v": record.get("v"), "x": record.get("x")}
        values["at"] = datetime.fromisoformat(record["at"]) if record.get("at") else None
    else:
        whole = text is not None and text.lstrip("-").isdigit()
        values["v"] = int(text) if whole and text is not None else None
        values["at"] = None if seconds is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        values |= {"tag": tags.get(record.get("n"))} if flow == "eu" else {"x": "us"}
        if text is not None and not whole:
            broken.add(f"CAST(r.v AS {'INT' if flow == 'eu' else 'SMALLINT'}) fits")
    value = values["v"]
    holds = {
        "k is not null": values["k"] is not None or order == "every",
        "at is not null": values["at"] is not None,
        "u is not null": values["u"] is not None or order != "latest",
        "big": value is not None and value > 0,
        "small": value is not None and value < 100,
        "known": values.get("tag") is not None or values.get("x") is not None,
    }
    broken |= {rule for rule, it in holds.items() if not it}
    place = "quarantine" if broken - {"small"} else "aside" if broken else "t"
    return _Row(flow, arrival, values, broken, place)


def _records(folder: Path) -> Iterator[tuple[Arrival, dict[str, Any]]]:
    for file in sorted(folder.glob("*.json"), key=lambda file: (file.stat().st_mtime, str(file))):
        for number, line in enumerate(file.read_text().splitlines()):
            yield (file.stat().st_mtime, str(file), number), json.loads(line)


def _winners(good: list[_Row], order: Order) -> list[_Row]:
    if order == "every":
        return good
    by_key: dict[int, list[_Row]] = defaultdict(list)
    for row in good:
        by_key[row.values["k"]].append(row)
    if order == "first":
        return [min(rows, key=lambda row: row.arrival) for rows in by_key.values()]
    return [max(rows, key=lambda row: (row.values["u"], row.arrival)) for rows in by_key.values()]


def _of_c(landing: Path) -> Iterator[_Row]:
    for place, folder in enumerate(("eu", "us")):
        for arrival, record in _records(landing / folder):
            yield _Row(folder, (place, *arrival), record)


def _versions(rows: list[_Row], tracked: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """The versions of each key, begun by each change of what is not the key."""
    by_key: dict[int, dict[int, _Row]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: row.arrival):
        if row.values.get("k") is not None and row.values.get("u") is not None:
            by_key[row.values["k"]][row.values["u"]] = row  # of those with one sequence the last one
    for key, its in by_key.items():
        begun: list[tuple[int, tuple[Any, ...]]] = []
        for u, row in sorted(its.items()):
            state = tuple(row.values.get(column) for column in tracked)
            if not begun or begun[-1][1] != state:
                begun.append((u, state))
        for (start, state), (end, _) in zip(begun, [*begun[1:], (None, ())], strict=True):
            yield (key, *state, start, end)
