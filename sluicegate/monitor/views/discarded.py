"""Discarded records of quarantines, as views count them: once for a version of both tables, in the background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from sluicegate.lake import discards, layout, tables
from sluicegate.lake.discards import Discarded

if TYPE_CHECKING:
    from sluicegate.monitor.views.source import Source


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


def of(source: Source, at: layout.Lake, name: str) -> DeltaTable | None:
    """The table of discards of a silver table; None where nothing is discarded."""
    uri = at.discarded(name)
    return source.table(uri) if source.rows(uri) else None


def standing(source: Source, at: layout.Lake, name: str) -> Standing | None:
    """What waits and what is discarded in a quarantine; None while that is being counted.

    Raises:
        SluicegateError: a table cannot be read.
    """
    made, quarantine = of(source, at, name), source.table(at.quarantine(name))
    if made is None or quarantine is None:
        return Standing()
    version = tuple((tables.table_id(one), one.version()) for one in (quarantine, made))
    what = ("discarded", at.quarantine(name))
    answer = source.soon((*what, version), lambda: source.remember(what, version, lambda: _standing(quarantine, made)))
    return answer.value


def rows(source: Source, at: layout.Lake, name: str) -> int:
    """Rows of a quarantine that are discarded; 0 while they are being counted."""
    found = standing(source, at, name)
    return found.discarded if found is not None else 0


def waiting(source: Source, at: layout.Lake, name: str) -> int:
    """Rows of a quarantine that wait: those that nobody has discarded."""
    every = source.rows(at.quarantine(name))
    return every - rows(source, at, name) if every else 0


def among(source: Source, at: layout.Lake, name: str, found: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Those of a few rows of a quarantine that are discarded: by their place, the discard of each.

    Args:
        source: where things are.
        at: the lake.
        name: the silver table.
        found: the rows, with the columns of ``lake.discards.KEYS`` that the quarantine has.
    """
    table = of(source, at, name)
    if table is None or not found:
        return {}
    every: pa.Table = source.once(at.discarded(name), "discards", discards.on_record)
    names = [key for key in (*discards.KEYS, discards.RULES) if key in found[0]]
    shown = pa.Table.from_pylist([{key: row.get(key) for key in names} for row in found])
    places, made = discards.counting(discards.keyed(shown, discards.RULES), every)
    said = every.take(made).select(["discard", "discarded_at", "discarded_by", "note"]).to_pylist()
    return dict(zip(places.to_pylist(), said, strict=True))


def _standing(quarantine: DeltaTable, made: DeltaTable) -> Standing:
    every, found = discards.quarantined(quarantine), discards.on_record(made)
    left = discards.waiting(every, found)
    counted = left.group_by("rules").aggregate([([], "count_all"), (discards.WHEN, "min"), (discards.WHEN, "max")])
    of_rules = [(discards.rules_of(one["rules"]), one) for one in counted.to_pylist()]
    names = sorted({rule for rules, _ in of_rules for rule in rules})
    reasons = [_reason(rule, (one for rules, one in of_rules if rule in rules)) for rule in names]
    return Standing(
        every.num_rows - left.num_rows,
        tuple(sorted(reasons, key=lambda one: (-one["count_all"], one["rule"]))),
        tuple(discards.listed(every, found)),
    )


def _reason(rule: str, counted: Iterable[dict[str, Any]]) -> dict[str, Any]:
    its = list(counted)
    first, last = (
        [one[f"{discards.WHEN}_{end}"] for one in its if one[f"{discards.WHEN}_{end}"] is not None]
        for end in ("min", "max")
    )
    return {
        "rule": rule, "count_all": sum(one["count_all"] for one in its),
        "when_min": min(first, default=None), "when_max": max(last, default=None),
    }  # fmt: skip
