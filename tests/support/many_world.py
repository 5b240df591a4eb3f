"""A pipeline whose records give many rows, by an array and by a join, and plain Python that says what its tables hold.

The oracle shares no code with what is tested. Files are read in the order of their modification times: whoever lands
files gives each a later time than all before, a file that is landed again too.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sluicegate.monitor import status
from tests.support.landing_world import LandingWorld

if TYPE_CHECKING:
    pass

DEFINITION = """
name: heart_rate
bronze:
  raw:
    path: ${{landing}}/raw
    format: json
    allowOverwrites: true
    schemaHints: "id BIGINT, n BIGINT, lines ARRAY<STRUCT<k: BIGINT, s: BIGINT, u: BIGINT, v: STRING>>"
  tags_raw: {{path: "${{landing}}/tags", format: json, allowOverwrites: true, schemaHints: "n BIGINT, tag STRING"}}
silver:
  tags: {{sql: "SELECT n, tag FROM STREAM(tags_raw) AS g"}}
  t:
    rows: many
    quarantine: {quarantine}
    sql: >-
      SELECT r.id, l.k, m.tag, TIMESTAMP_SECONDS(l.s + {shift}) AS at, CAST(l.v AS INT) AS v, l.u
      FROM STREAM(raw) AS r LEFT JOIN tags AS m ON r.n = m.n LATERAL VIEW explode(r.lines) x AS l
      WHERE l.k IS DISTINCT FROM 9
    {keys}
    event_time: at
    expectations:
      big: {{expect_or_quarantine: v > {least}}}
      small: {{expect_or_drop: v < 100}}
      known: {{expect_or_quarantine: tag IS NOT NULL}}
{more}
"""
HISTORY = """\
  h:
    from: t
    apply_changes: {keys: [k], sequence_by: u, stored_as_scd_type: 2, column_list: [k, tag, v]}
"""
KEYS = {"first": "keys: [k]", "latest": "keys: [k]\n    sequence_by: u", "every": ""}
COLUMNS = ("id", "k", "tag", "at", "v", "u")

# A record's place in the order of arrival, its file's time and path and the line, and then a row's number in it.
Arrival = tuple[Any, ...]


@dataclass(frozen=True)
class Today:
    """Today's definition of table ``t``.

    Attributes:
        order: which of several rows with one key wins; ``every``: there are no keys.
        quarantine: whether a broken row takes its whole record to quarantine.
        least: the rule ``big`` wants a greater ``v``.
        shift: seconds that the transform adds to the event time.
    """

    order: Literal["first", "latest", "every"] = "first"
    quarantine: Literal["row", "record"] = "row"
    least: int = 0
    shift: int = 0


@dataclass
class World(LandingWorld):
    """A workspace with that pipeline."""

    today: Today = field(default_factory=Today)
    more: str = HISTORY
    lines: int = 0

    def __post_init__(self) -> None:
        for folder in ("raw", "tags"):
            (self.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)
        self.redefine(self.today)

    def redefine(self, today: Today) -> None:
        """Edits the definition."""
        self.today = today
        of = {"shift": today.shift, "least": today.least, "keys": KEYS[today.order], "quarantine": today.quarantine}
        self.define(DEFINITION.format(**of, more=self.more))

    def put(self, file: str, *records: dict[str, Any]) -> Path:
        """Lands a file, or lands it again; each line of a record gets a number of its own."""
        for line in (line for one in records for line in one.get("lines") or ()):
            self.lines += 1
            line["u"] = self.lines
        return super().put(file, *records)

    def held(self) -> dict[str, Counter[Any]]:
        """What the tables hold, in the oracle's words."""
        quarantined = self.rows("t_quarantine", *COLUMNS, "_failed_expectations")
        found = {
            "t": Counter(self.rows("t", *COLUMNS)),
            "quarantine": Counter((*row[:-1], tuple(sorted(row[-1]))) for row in quarantined),
            "aside": Counter(reason for (reason,) in self.rows("t_set_aside", "reason")),
        }
        if self.more:
            found["h"] = Counter(self.rows("h", "k", "tag", "v", "__START_AT", "__END_AT"))
        return found

    def by_record(self) -> dict[tuple[int, int], tuple[Counter[Any], Counter[Any], Counter[Any]]]:
        """What each record has in the table, in its quarantine and in the set-aside."""
        found: dict[tuple[int, int], Any] = defaultdict(lambda: (Counter(), Counter(), Counter()))
        for place, (table, columns) in enumerate(
            [("t", COLUMNS), ("t_quarantine", COLUMNS), ("t_set_aside", ("reason",))]
        ):
            for chunk, pos, *row in self.rows(table, "_chunk", "_pos", *columns):
                found[chunk, pos][place][tuple(row)] += 1
        return dict(found)

    def assert_right(self) -> None:
        """All tables are those that today's definition makes of the landed files, and all adds up."""
        found = expected(self.folder / "landing", self.today)
        assert self.held() == {table: rows for table, rows in found.items() if table != "h" or self.more}
        assert status.verify(self.definition, self.settings) == []
        texts: dict[tuple[int, int], list[str | None]] = defaultdict(list)
        for chunk, pos, _, text in sorted(self.rows("t_quarantine", "_chunk", "_pos", "_record_row", "_record")):
            texts[chunk, pos].append(text)
        assert all(its[0] and not any(its[1:]) for its in texts.values())


@dataclass
class _Row:
    arrival: Arrival
    values: dict[str, Any]
    broken: set[str]
    place: str = "t"

    @property
    def tuple(self) -> tuple[Any, ...]:
        return tuple(self.values[column] for column in COLUMNS)


def expected(landing: Path, today: Today) -> dict[str, Counter[Any]]:
    """Rows of ``t``, of its quarantine and of its history, and how many are set aside for which reason."""
    rows, without = evaluated(landing, today)
    good = [row for row in rows if row.place == "t"]
    winners = _winners(good, today)
    aside = Counter(
        {"dropped": sum(row.place == "aside" for row in rows), "no_rows": without,
         "superseded" if today.order == "latest" else "duplicate": len(good) - len(winners)}
    )  # fmt: skip
    return {
        "t": Counter(row.tuple for row in winners),
        "quarantine": Counter(
            (*row.tuple, tuple(sorted(row.broken))) for row in rows if row.place == "quarantine"
        ),
        "aside": +aside,
        "h": Counter(_versions(winners)),
    }  # fmt: skip


def evaluated(landing: Path, today: Today) -> tuple[list[_Row], int]:
    """The rows of all records, before those with one key are settled, and how many records give none."""
    tags = defaultdict(list)
    for _, record in _records(landing / "tags"):
        tags[record.get("n")].append(record.get("tag"))
    found: list[_Row] = []
    without = 0
    for arrival, record in _records(landing / "raw"):
        its = [_row(record, line, tag, today) for line in record.get("lines") or () if line.get("k") != 9
               for tag in (tags.get(record["n"], []) if record.get("n") is not None else []) or [None]]  # fmt: skip
        its.sort(key=lambda row: [(value is not None, value) for value in row.tuple])
        for number, row in enumerate(its, 1):
            row.arrival = (*arrival, number)
            row.place = "quarantine" if row.broken - {"small"} else "aside" if row.broken else "t"
        if today.quarantine == "record" and any(row.place == "quarantine" for row in its):
            for row in (row for row in its if row.place == "t"):
                row.place, row.broken = "quarantine", {*row.broken, "record is whole"}
        found += its
        without += not its
    return found, without


def of_record(landing: Path, today: Today) -> dict[int, list[_Row]]:
    """The rows of each record by its ``id``."""
    found = defaultdict(list)
    for row in evaluated(landing, today)[0]:
        found[row.values["id"]].append(row)
    return dict(found)


def _records(folder: Path) -> Iterator[tuple[Arrival, dict[str, Any]]]:
    for file in sorted(folder.glob("*.json"), key=lambda file: (file.stat().st_mtime, str(file))):
        for number, line in enumerate(file.read_text().splitlines()):
            yield (file.stat().st_mtime, str(file), number), json.loads(line)


def _row(record: dict[str, Any], line: dict[str, Any], tag: str | None, today: Today) -> _Row:
    seconds, text = line.get("s"), line.get("v")
    at = None if seconds is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds + today.shift)
    value = int(text) if text is not None and text.lstrip("-").isdigit() else None
    holds = {
        "CAST(l.v AS INT) fits": text is None or value is not None,
        "k is not null": line.get("k") is not None or today.order == "every",
        "at is not null": at is not None,
        "big": value is not None and value > today.least,
        "small": value is not None and value < 100,
        "known": tag is not None,
    }
    values = {"id": record["id"], "k": line.get("k"), "tag": tag, "at": at, "v": value, "u": line["u"]}
    return _Row((), values, {rule for rule, it in holds.items() if not it})


def _winners(good: list[_Row], today: Today) -> list[_Row]:
    if today.order == "every":
        return good
    by_key: dict[int, list[_Row]] = defaultdict(list)
    for row in good:
        by_key[row.values["k"]].append(row)
    if today.order == "first":
        return [min(rows, key=lambda row: row.arrival) for rows in by_key.values()]
    return [max(rows, key=lambda row: (row.values["u"], row.arrival)) for rows in by_key.values()]


def _versions(rows: list[_Row]) -> Iterator[tuple[Any, ...]]:
    """The versions of each key, begun by each change of what is not the key."""
    by_key: dict[int, dict[int, _Row]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: row.arrival):
        if row.values["k"] is not None:
            by_key[row.values["k"]][row.values["u"]] = row  # of those with one sequence the last one
    for key, its in by_key.items():
        begun: list[tuple[int, tuple[Any, ...]]] = []
        for u, row in sorted(its.items()):
            state = (row.values["tag"], row.values["v"])
            if not begun or begun[-1][1] != state:
                begun.append((u, state))
        for (start, state), (end, _) in zip(begun, [*begun[1:], (None, ())], strict=True):
            yield (key, *state, start, end)
