"""Discarded records of quarantines, counted once for a version of both tables, in the background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from sluicegate.dashboard.source import Source
from sluicegate.lake import discards, layout, tables
from sluicegate.lake.discards import Discarded


@dataclass(frozen=True)
class Standing:
    """A quarantine with discards.

    Attributes:
        discarded: rows of it that are discarded.
        reasons: for each rule the rows that wait, and when they came: most first.
        made: the discards on record, the newest first.
    """

    discarded: int = 0
    reasons: tuple[dict[str, Any], ...] = ()
    made: tuple[Discarded, ...] = ()


def discard_table(source: Source, lake: layout.Lake, name: str) -> DeltaTable | None:
    """Open the table of discards of a silver table, None where nothing is discarded."""
    uri = lake.discards(name)
    if source.rows(uri):
        return source.table(uri)
    return None


def read_standing(source: Source, lake: layout.Lake, name: str) -> Standing | None:
    """Count the waiting and discarded rows of a quarantine, None while the count is running.

    Raises:
        SluicegateError: a table cannot be read.
    """
    discard_log, quarantine = discard_table(source, lake, name), source.table(lake.quarantine(name))
    if discard_log is None or quarantine is None:
        return Standing()
    version = tuple((tables.table_id(table), table.version()) for table in (quarantine, discard_log))
    key, compute = ("discarded", lake.quarantine(name)), partial(_compute_standing, quarantine, discard_log)
    return source.compute_soon((*key, version), lambda: source.remember(key, version, compute)).value


def rows(source: Source, lake: layout.Lake, name: str) -> int:
    """Return the number of discarded rows of a quarantine, 0 while the count is running."""
    discards_of_table = read_standing(source, lake, name)
    if discards_of_table is not None:
        return discards_of_table.discarded
    return 0


def waiting_rows(source: Source, lake: layout.Lake, name: str) -> int:
    """Return the number of rows of a quarantine that nobody has discarded."""
    quarantined = source.rows(lake.quarantine(name))
    if quarantined:
        return quarantined - rows(source, lake, name)
    return 0


def discards_of_rows(
    source: Source, lake: layout.Lake, name: str, records: Sequence[dict[str, Any]]
) -> dict[int, dict[str, Any]]:
    """Return the discards of a few rows of a quarantine by the position of the row.

    Args:
        source: the source of the lake's tables.
        lake: the lake.
        name: the silver table.
        records: the rows, with the columns of ``lake.discards.KEYS`` that the quarantine has.
    """
    table = discard_table(source, lake, name)
    if table is None or not records:
        return {}
    discard_log: pa.Table = source.compute_once(lake.discards(name), "discards", discards.recorded_discards)
    names = [key for key in (*discards.KEYS, discards.RULES) if key in records[0]]
    shown = pa.Table.from_pylist([{key: row.get(key) for key in names} for row in records])
    places, indexes = discards.match_discards(discards.comparable_rows(shown, discards.RULES), discard_log)
    facts = discard_log.take(indexes).select(["discard", "discarded_at", "discarded_by", "note"])
    return dict(zip(places.to_pylist(), facts.to_pylist(), strict=True))


def _compute_standing(quarantine: DeltaTable, discard_log: DeltaTable) -> Standing:
    quarantined, recorded = discards.quarantined_rows(quarantine), discards.recorded_discards(discard_log)
    undone = discards.waiting_rows(quarantined, recorded)
    counted = undone.group_by("rules").aggregate([([], "count_all"), (discards.WHEN, "min"), (discards.WHEN, "max")])
    of_rules = [(discards.rules_of(row["rules"]), row) for row in counted.to_pylist()]
    names = sorted({rule for rules, _ in of_rules for rule in rules})
    reasons = [_reason(rule, (row for rules, row in of_rules if rule in rules)) for rule in names]
    return Standing(
        quarantined.num_rows - undone.num_rows,
        tuple(sorted(reasons, key=lambda reason: (-reason["count_all"], reason["rule"]))),
        tuple(discards.list_discards(quarantined, recorded)),
    )


def _reason(rule: str, counted: Iterable[dict[str, Any]]) -> dict[str, Any]:
    counts = list(counted)
    first, last = (
        [row[f"{discards.WHEN}_{end}"] for row in counts if row[f"{discards.WHEN}_{end}"] is not None]
        for end in ("min", "max")
    )
    return {
        "rule": rule, "count_all": sum(row["count_all"] for row in counts),
        "when_min": min(first, default=None), "when_max": max(last, default=None),
    }  # fmt: skip
