"""A pipeline with a lookup, keys, rules and an event time, whose files can be landed, replaced and taken away."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluicegate.lake import tables
from sluicegate.monitor import status
from tests.support.landing_world import LandingWorld
from tests.support.silver_oracle import Today, expected

if TYPE_CHECKING:
    pass

BRONZE = """
name: heart_rate
bronze:
  raw:
    path: ${landing}/raw
    format: json
    allowOverwrites: true
    schemaHints: "id BIGINT, k BIGINT, n BIGINT, s BIGINT, seq BIGINT, v STRING"
  names_raw:
    path: ${landing}/names
    format: json
    allowOverwrites: true
    schemaHints: "n BIGINT, name STRING, seq BIGINT"
silver:
  names: {from: names_raw, apply_changes: {keys: [n], sequence_by: seq}}
"""
TABLE = """
  t:
    sql: >-
      SELECT r.id, r.k, m.name, TIMESTAMP_SECONDS(r.s + {shift}) AS at, CAST(r.v AS INT) AS v
      FROM STREAM(raw) AS r LEFT JOIN names AS m ON r.n = m.n WHERE r.k IS DISTINCT FROM 9
    {keys}
    event_time: at
    expectations:
      big: {{expect_or_quarantine: v > {least}}}
      small: {{expect_or_drop: v < 100}}
      known: {{expect_or_quarantine: name IS NOT NULL, retry: true}}
"""
KEYS = {"first": "keys: [k]", "latest": "keys: [k]\n    sequence_by: seq", "every": ""}
COLUMNS = ("id", "k", "name", "at", "v")
BESIDE = ("t", "t_quarantine", "t_set_aside")


def record(id_: int, k: int | None = 1, n: int | None = 1, v: str | None = "5", **fields: Any) -> dict[str, Any]:
    """A record of ``raw`` that breaks no rule once its lookup row is there."""
    return {"id": id_, "k": k, "n": n, "s": 0, "seq": 1, "v": v, **fields}


def name(n: int, text: str | None, seq: int = 1) -> dict[str, Any]:
    """A record of ``names``."""
    return {"n": n, "name": text, "seq": seq}


@dataclass
class World(LandingWorld):
    """A workspace with that pipeline."""

    today: Today = field(default_factory=Today)
    more: str = ""

    def __post_init__(self) -> None:
        for folder in ("raw", "names"):
            (self.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)
        self.redefine(self.today)

    def redefine(self, today: Today) -> None:
        """Edits the definition."""
        self.today = today
        table = TABLE.format(shift=today.shift, least=today.least, keys=KEYS[today.order])
        self.define(BRONZE + table + self.more)

    def held(self) -> dict[str, Counter[Any]]:
        """What the tables hold, in the oracle's words."""
        quarantined = self.rows("t_quarantine", *COLUMNS, "_failed_expectations")
        return {
            "t": Counter(self.rows("t", *COLUMNS)),
            "quarantine": Counter((*row[:-1], tuple(sorted(row[-1]))) for row in quarantined),
            "aside": Counter(reason for (reason,) in self.rows("t_set_aside", "reason")),
        }

    def problems(self) -> list[str]:
        """What a verification finds in silver; a DELETE in bronze is one to bronze itself."""
        found = status.verify(self.definition, self.settings)
        return [one for one in found if one.split(":")[0] in self.definition.silver]

    def assert_right(self) -> None:
        """All three tables are those that today's definition makes of the landed files, and all adds up."""
        assert self.held() == expected(self.folder / "landing", self.today)
        assert self.problems() == []

    def ids(self, table: str = "t") -> list[int]:
        """The records whose rows are in a table."""
        return sorted(id_ for (id_,) in self.rows(table, "id"))

    def versions(self) -> dict[str, int | None]:
        """The versions of the table and of those beside it."""
        found = {name: tables.delta_table(self.uri(name)) for name in BESIDE}
        return {name: table.version() if table else None for name, table in found.items()}
