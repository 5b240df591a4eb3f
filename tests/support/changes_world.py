"""A pipeline whose silver definition changes between runs, and what its table must then hold, by the landed files.

The expected rows are made in plain Python over the raw files by today's definition alone: it shares no code with what
is tested, and knows nothing of former definitions or of how records came to be applied.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from sluicegate.errors import SluicegateError
from sluicegate.flow.selection import Interval, Replay
from sluicegate.jobs.layer_job import Job
from sluicegate.monitor import status
from tests.support.landing_world import LandingWorld

if TYPE_CHECKING:
    from random import Random

    from pyspark.sql import SparkSession

    from sluicegate.flow.table_report import TableReport

BRONZE = """
name: heart_rate
bronze:
  raw:
    path: ${landing}/raw
    format: json
    allowOverwrites: true
    schemaHints: "id STRING, d STRING, n STRING, seq STRING, seq2 STRING, v STRING, w STRING, at STRING, tags STRING"
  names_raw: {path: "${landing}/names", format: json, schemaHints: "n STRING, name STRING, seq BIGINT"}
silver:
  names: {from: names_raw, apply_changes: {keys: [n], sequence_by: seq}}
"""
NESTED = {
    "": "",
    "int": "named_struct('a', CAST(r.seq AS INT), 'b', r.d)",
    "turned": "named_struct('b', r.d, 'a', CAST(r.seq AS INT))",
    "decimal": "named_struct('a', CAST(r.w AS DECIMAL(6,2)), 'b', r.d)",
    "more": "named_struct('a', CAST(r.w AS DECIMAL(6,2)), 'b', r.d, 'c', r.n)",
    "array": "array(CAST(r.seq AS INT))",
    "wide array": "array(CAST(r.w AS DECIMAL(6,1)))",
    "map": "map('k', CAST(r.seq AS BIGINT))",
    "wide map": "map('k', CAST(r.w AS DOUBLE))",
}
NUMBERS = ("INT", "BIGINT", "DECIMAL(10,1)", "DECIMAL(10,3)", "DOUBLE", "STRING")
WAYS = ("new", "overwritten", "interval", "replay", "replay everything", "late lookup")


@dataclass(frozen=True)
class Today:
    """Today's definition of table ``t``.

    Attributes:
        keys: its keys.
        sequence: column of its sequence; empty without one.
        of_sequence: type of the two columns that may be one.
        number: type of ``v``.
        nested: what ``s`` is.
        moment: type of the event time.
        history: SCD type of ``apply_changes``; 0 without.
        rule: ``least``, ``unique`` or none.
        where: whether the query leaves records out.
        many: whether a record gives a row for each of its tags.
    """

    keys: tuple[str, ...] = ()
    sequence: str = ""
    of_sequence: str = "INT"
    number: str = "INT"
    nested: str = ""
    moment: str = "TIMESTAMP"
    history: int = 0
    rule: str = ""
    where: bool = False
    many: bool = False

    @property
    def columns(self) -> list[str]:
        """Columns of the table that the definition makes."""
        versions = ["__START_AT", "__END_AT"] if self.history == 2 else []
        nested, tag = ["s"] if self.nested else [], ["tag"] if self.many else []
        return ["id", "d", "seq", "seq2", "v", "at", "name", *nested, *tag, *versions]

    @property
    def text(self) -> str:
        """The definition."""
        nested = f", {NESTED[self.nested]} AS s" if self.nested else ""
        where = "WHERE r.d <> 'z'" if self.where else ""
        tag, view = (", x.tag", "LATERAL VIEW explode(split(r.tags, ',')) x AS tag") if self.many else ("", "")
        sql = (
            f"SELECT CAST(r.id AS INT) AS id, r.d, CAST(r.seq AS {self.of_sequence}) AS seq, "
            f"CAST(r.seq2 AS {self.of_sequence}) AS seq2, CAST(r.v AS {self.number}) AS v, "
            f"CAST(r.at AS {self.moment}) AS at, m.name{nested}{tag} "
            f"FROM STREAM(raw) AS r LEFT JOIN names AS m ON r.n = m.n {view} {where}"
        )
        lines = [f'  sql: "{sql}"']
        if self.history:
            lines = [f'  flows: {{f: {{sql: "{sql}"}}}}',
                     f"  apply_changes: {{keys: [{', '.join(self.keys)}], sequence_by: {self.sequence}, "
                     f"stored_as_scd_type: {self.history}}}"]  # fmt: skip
        elif self.keys:
            lines.append(f"  keys: [{', '.join(self.keys)}]")
            lines += [f"  sequence_by: {self.sequence}"] if self.sequence else []
        lines += ["  event_time: at"] + (["  rows: many"] if self.many else [])
        rules = {"least": "least: {expect_or_quarantine: id > 1}", "unique": "only: {expect_or_quarantine: unique(v)}"}
        lines += [f"  expectations: {{{rules[self.rule]}}}"] if self.rule else []
        return BRONZE + "  t:\n" + "\n".join(f"  {line}" for line in lines) + "\n"

    def edited(self, lot: Random) -> Today:
        """Another definition: one or two parts of it changed."""
        choices: dict[str, tuple[Any, ...]] = {
            "keys": ((), ("id",), ("id", "d"), ("d",)), "sequence": ("", "seq", "seq2"),
            "of_sequence": ("INT", "BIGINT", "DOUBLE"), "number": NUMBERS, "nested": tuple(NESTED),
            "moment": ("TIMESTAMP", "DATE"), "history": (0, 1, 2), "rule": ("", "least", "unique"),
            "where": (False, True), "many": (False, True),
        }  # fmt: skip
        found = self
        while found == self:
            for name in lot.sample([*choices], lot.choice((1, 1, 2))):
                found = replace(found, **{name: lot.choice(choices[name])})
            found = found.allowed()
        return found

    def allowed(self) -> Today:
        """The same without what a definition may not have, or what this oracle does not know."""
        if self.many:
            return replace(self, history=0, sequence="", keys=("id", "tag") if self.keys else (),
                           rule="" if self.rule == "unique" else self.rule)  # fmt: skip
        keys = tuple(key for key in self.keys if key != "tag")
        if self.history:
            rule = "" if self.rule == "unique" else self.rule
            return replace(self, keys=keys or ("id",), sequence=self.sequence or "seq", rule=rule)
        return replace(self, keys=keys, sequence=self.sequence if keys else "")


@dataclass
class ChangesWorld(LandingWorld):
    """A workspace with that pipeline."""

    today: Today = field(default_factory=Today)
    files: int = 0

    def __post_init__(self) -> None:
        for folder in ("raw", "names"):
            (self.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)
        self.edit_to(self.today)

    def edit_to(self, today: Today) -> None:
        """Edits the definition."""
        self.today = today
        self.define(today.text)

    def land_some(self, lot: Random, file: str = "") -> None:
        """Lands a file of a few records, or lands one again."""
        self.files += not file
        records = [
            {
                "id": str(lot.randint(1, 4)), "d": lot.choice("xyz"), "n": lot.choice("ab"),
                "w": lot.choice(("1.25", "2")),
                "seq": str(lot.randint(1, 30)), "seq2": str(lot.randint(1, 30)),
                "v": lot.choice(("5", "7", "12.5", "99.99", "0.125", "-3", None)),
                "at": f"2024-03-0{lot.randint(1, 3)}T05:30:00Z", "tags": lot.choice(("p", "p,q", "p,q,r")),
            }
            for _ in range(lot.randint(2, 5))
        ]  # fmt: skip
        self.put(file or f"raw/{self.files}", *records)

    def name(self, n: str, name: str) -> None:
        """Lands another name for a row of the lookup."""
        self.put(f"names/{n}{self.clock}", {"n": n, "name": name, "seq": self.clock})

    def apply(self, spark: SparkSession, way: str, lot: Random) -> TableReport:
        """Applies records in one of ``WAYS``; then whatever command the report or the error names for the rest."""
        choice: Interval | Replay | None = None
        if way == "new":
            self.land_some(lot)
        elif way == "overwritten":
            self.land_some(lot, f"raw/{lot.randint(1, self.files)}")
        elif way == "late lookup":
            self.name(lot.choice("ab"), f"name {self.clock}")
        elif way == "interval":
            choice = Interval.parse("2024-03-01", "2024-03-03")
        else:
            choice = Replay("t", everything=way == "replay everything")
        try:
            report = self.take_in(spark, choice=choice)["t"]
        except SluicegateError as error:
            if "--full-refresh t`" not in error.hint:
                raise
            report = self.in_full(spark)
        if report.mixed:
            report = self.take_in(spark, "silver", choice=Replay("t", everything=True))["t"]
            assert not report.mixed
        return report

    def in_full(self, spark: SparkSession) -> TableReport:
        """What ``run --full-refresh t`` does."""
        job = Job(self.definition, self.lake, "silver", {"run_id": "test"}, spark, only="t", full_refresh=True)
        return next(table for table in job.run().tables if table.table == "t")

    def problems(self) -> str:
        """What is not as the landed files and today's definition have it; empty if all is right."""
        good, quarantined = expected(self)
        rows = Counter(map(_frozen, self.rows("t", *self.today.columns)))
        found = [f"not there: {good - rows}", f"too many: {rows - good}"] if rows != good else []
        held = Counter(id_ for (id_,) in self.rows("t_quarantine", "id"))
        found += [f"quarantined {held}, and not {quarantined}"] if held != quarantined else []
        found += status.verify(self.definition, self.settings)
        kinds = {
            one.name: str(one.type.type)
            for one in DeltaTable(self.uri("t")).schema().fields
            if hasattr(one.type, "type")
        }
        names = {"INT": "integer", "BIGINT": "long"}
        for column, kind in {"v": self.today.number, "seq": self.today.of_sequence, "at": self.today.moment}.items():
            wanted = names.get(kind, kind.lower())
            found += [f"{column} is {kinds[column]}, and not {wanted}"] if kinds[column] != wanted else []
        return "\n".join(found)


def expected(world: ChangesWorld) -> tuple[Counter[Any], Counter[int]]:
    """The rows of the table, and the ids of those in quarantine."""
    today, good, quarantined = world.today, list[dict[str, Any]](), Counter[int]()
    names = {one["n"]: one["name"] for one in sorted(_lines(world, "names"), key=lambda one: int(one["seq"]))}
    for record in _lines(world, "raw"):
        if today.where and record["d"] == "z":
            continue
        for tag in record["tags"].split(",") if today.many else [None]:
            row, fits = _row(record, names, today)
            row["tag"] = tag
            if fits and not (today.rule == "least" and row["id"] <= 1):
                good.append(row)
            else:
                quarantined[row["id"]] += 1
    winners = _versions(good, today) if today.history == 2 else _winners(good, today)
    if today.rule == "unique":
        winners, twice = _unique(winners)
        quarantined.update(row["id"] for row in twice)
    return Counter(_frozen([row[column] for column in today.columns]) for row in winners), quarantined


def _lines(world: ChangesWorld, folder: str) -> Iterator[dict[str, Any]]:
    """Records in the order of their arrival: a file that was landed again arrived when it was."""
    paths = (world.folder / "landing" / folder).glob("*.json")
    for path in sorted(paths, key=lambda path: path.stat().st_mtime):
        yield from map(json.loads, path.read_text().splitlines())


def _row(record: dict[str, Any], names: dict[str, str], today: Today) -> tuple[dict[str, Any], bool]:
    value, fits = _number(record["v"], today.number)
    whole = float if today.of_sequence == "DOUBLE" else int
    moment = datetime.fromisoformat(record["at"])
    row = {
        "id": int(record["id"]), "d": record["d"], "seq": whole(record["seq"]), "seq2": whole(record["seq2"]),
        "v": value,
        "at": moment.date() if today.moment == "DATE" else moment.astimezone(UTC), "name": names.get(record["n"]),
        "s": _nested(record, today.nested),
    }  # fmt: skip
    return row, fits


def _number(text: str | None, kind: str) -> tuple[Any, bool]:
    if text is None or kind == "STRING":
        return text, True
    if kind in ("INT", "BIGINT"):
        return (int(text), True) if re.fullmatch(r"-?\d+", text) else (None, False)
    if kind == "DOUBLE":
        return float(text), True
    places = Decimal(1).scaleb(-int(kind[-2]))
    return Decimal(text).quantize(places, ROUND_HALF_UP), True


def _nested(record: dict[str, Any], nested: str) -> Any:
    seq, exact = int(record["seq"]), Decimal(record["w"])
    struct = {"b": record["d"], "a": seq if nested in ("int", "turned") else exact}
    return {
        "int": struct, "turned": struct, "decimal": struct, "more": {**struct, "c": record["n"]}, "array": [seq],
        "wide array": [exact.quantize(Decimal("0.1"), ROUND_HALF_UP)], "map": [("k", seq)],
        "wide map": [("k", float(record["w"]))], "": None,
    }[nested]  # fmt: skip


def _winners(rows: list[dict[str, Any]], today: Today) -> list[dict[str, Any]]:
    """One row of each key: the first, or the one with the greatest sequence, of equal ones the last."""
    if not today.keys:
        return rows
    found: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
    for place, row in enumerate(rows):
        key = tuple(row[column] for column in today.keys)
        held = found.get(key)
        if held is None or (today.sequence and row[today.sequence] >= held[1][today.sequence]):
            found[key] = (place, row)
    return [row for _, row in sorted(found.values(), key=lambda one: one[0])]


def _versions(rows: list[dict[str, Any]], today: Today) -> list[dict[str, Any]]:
    """A row for each version: of equal sequences the last record counts, and one that changes nothing begins none."""
    by_key: dict[tuple[Any, ...], dict[Any, dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(tuple(row[column] for column in today.keys), {})[row[today.sequence]] = row
    found: list[dict[str, Any]] = []
    for of_key in by_key.values():
        versions: list[dict[str, Any]] = []
        for sequence, row in sorted(of_key.items()):
            own = {column: row[column] for column in ("id", "d", "seq", "seq2", "v", "at", "name", "s")}
            if versions and own == {column: versions[-1][column] for column in own}:
                continue
            if versions:
                versions[-1]["__END_AT"] = sequence
            versions.append({**row, "__START_AT": sequence, "__END_AT": None})
        found += versions
    return found


def _unique(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first row to arrive with each ``v``, and the others, with those that have none."""
    seen, stay, go = set[Any](), list[dict[str, Any]](), list[dict[str, Any]]()
    for row in rows:
        (go if row["v"] is None or row["v"] in seen else stay).append(row)
        seen.add(row["v"])
    return stay, go


def _frozen(value: Any) -> Any:
    """A value that can be counted; a number is not equal to one of another type."""
    if isinstance(value, dict):  # a field of a former definition is NULL
        return tuple(sorted((name, _frozen(part)) for name, part in value.items() if part is not None))
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    return (type(value).__name__, value) if isinstance(value, (int, float, Decimal)) else value
