"""Quarantine of a silver table: by rule, and records as they came beside how they were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.dashboard import batches, discarded, one_table, personal
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.errors import PipelineMissing
from sluicegate.lake import tables
from sluicegate.lake.discards import KEYS, Discarded
from sluicegate.monitor.lineage import QUARANTINE
from sluicegate.schema.columns import ENGINE_COLUMNS, RECORD

EXAMPLES = 20
"""Records of a page."""

FILES = 8
"""Data files that examples of one rule are looked for in, the newest: a rule that all of them lack shows none."""

_RULES, _WHEN, _FILE = "_failed_expectations", "_quarantined_at", "source_file"


@dataclass(frozen=True)
class Reason:
    """A rule that records broke which wait in quarantine.

    Attributes:
        rule: its name.
        text: its condition, as written; empty of a rule that the definition does not have any more.
        retry: whether its records are reprocessed when a lookup changes.
        records: records that broke it.
        first: when the first of them was quarantined (UTC).
        last: when the last of them was.
    """

    rule: str
    text: str
    retry: bool
    records: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True)
class QuarantinedRecord:
    """A record in quarantine.

    Attributes:
        rules: the rules that it broke.
        record: the record as it came; hidden where it may have personal data.
        values: its values as they were read, by column.
        file: the file that it came in.
        when: when it was quarantined (UTC).
        discarded: when a person discarded it (UTC); None if it waits.
        by: who did.
        note: why.
    """

    rules: tuple[str, ...]
    record: str
    values: tuple[tuple[str, str], ...]
    file: str
    when: datetime | None
    discarded: datetime | None = None
    by: str = ""
    note: str = ""


@dataclass(frozen=True)
class QuarantineDetails:
    """Quarantine of a silver table.

    Attributes:
        pipeline: its pipeline.
        table: the silver table.
        records: records in it that wait.
        reasons: the rules that they broke, most records first; None while they are counted.
        rule: the rule that is shown; empty for all.
        examples: the newest records; None where the viewer may read no rows.
        hidden: whether values are hidden, as the pipeline has personal data.
        version: the state of the quarantine's table and of its discards; empty if there is none.
        trend: records that the last batches put into it, oldest first, each with its run.
        discarded: records in it that a person has discarded.
        discards: the discards on record, the newest first; one whose records have all left the quarantine has none.
    """

    pipeline: str
    table: str
    records: int
    reasons: tuple[Reason, ...] | None
    rule: str
    examples: tuple[QuarantinedRecord, ...] | None
    hidden: bool
    trend: tuple[tuple[datetime, int], ...]
    version: str = ""
    discarded: int = 0
    discards: tuple[Discarded, ...] = ()


def quarantine_details(
    source: Source, pipeline: Pipeline, name: str, rule: str = "", *, rows: bool = True
) -> QuarantineDetails:
    """Return the quarantine of a silver table.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        name: the silver table.
        rule: rule that the shown records broke; empty for all.
        rows: True if the viewer may read rows.

    Raises:
        PipelineMissing: unknown silver table, or no record that broke a rule of that name.
    """
    if name not in pipeline.silver:
        raise PipelineMissing("unknown silver table")
    lake = source.lake(pipeline)
    uri = lake.quarantine(name)
    history = batches.table_batches(source, pipeline, "silver", name)
    trend = tuple((batch.time, batch.balance.quarantined) for batch in reversed(history))
    table = source.table(uri)
    if table is None:
        return QuarantineDetails(pipeline.name, name, 0, (), rule, () if rows else None, False, trend)
    version = (tables.table_id(table), table.version())
    discards = discarded.discard_table(source, lake, name)
    standing = discarded.read_standing(source, lake, name)
    if discards is None:
        reasons = source.compute_soon(("reasons", uri, version), lambda: _reasons(table)).value
    else:
        reasons = None if standing is None else list(standing.reasons)
    described = None if reasons is None else tuple(_describe_reason(pipeline, name, reason) for reason in reasons)
    standing_now = standing or discarded.Standing()
    if not _may_be_broken(pipeline.silver[name], rule, described, standing_now.made):
        raise PipelineMissing("unknown rule")
    examples = _examples(source, pipeline, name, table, rule) if rows else None
    hidden = personal.has_personal_data(source, pipeline)
    state = f"{version[0]}@{version[1]}" + (f"/{discards.version()}" if discards is not None else "")
    return QuarantineDetails(
        pipeline.name, name, source.rows(uri) - standing_now.discarded, described, rule, examples, hidden, trend, state,
        standing_now.discarded, standing_now.made,
    )  # fmt: skip


def _may_be_broken(
    table: SilverTable, rule: str, reasons: Sequence[Reason] | None, discards: Sequence[Discarded]
) -> bool:
    """Return whether records may have broken a rule, so that an unknown name does not start a search."""
    if not rule or rule in table.expectations:
        return True
    if reasons is None:
        return False
    return any(rule == reason.rule for reason in reasons) or any(rule in discard.rules for discard in discards)


def _reasons(table: DeltaTable) -> list[dict[str, Any]]:
    parts = [
        _count_by_rule(batch)
        for batch in tables.dataset(table).to_batches([_RULES, _WHEN], batch_readahead=1, fragment_readahead=1)
    ]
    if not parts:
        return []
    aggregates = [("count_all", "sum"), ("when_min", "min"), ("when_max", "max")]
    sums = pa.concat_tables(parts).group_by("rule").aggregate(aggregates)
    sums = sums.select(["rule", "count_all_sum", "when_min_min", "when_max_max"])
    counted = sums.rename_columns(["rule", "count_all", "when_min", "when_max"])
    return counted.sort_by([("count_all", "descending"), ("rule", "ascending")]).to_pylist()  # type: ignore[no-any-return]


def _count_by_rule(batch: Any) -> Any:
    """Count the records of a batch by rule, so that whole columns are never in memory."""
    rules = batch[_RULES]
    each = pa.table({"rule": pc.list_flatten(rules), "when": pc.take(batch[_WHEN], pc.list_parent_indices(rules))})
    return each.group_by("rule").aggregate([([], "count_all"), ("when", "min"), ("when", "max")])


def _describe_reason(pipeline: Pipeline, name: str, counted: dict[str, Any]) -> Reason:
    expectation = pipeline.silver[name].expectations.get(counted["rule"])
    return Reason(
        counted["rule"], expectation.text if expectation else "", bool(expectation and expectation.retry),
        counted["count_all"], counted["when_min"], counted["when_max"],
    )  # fmt: skip


def _examples(
    source: Source, pipeline: Pipeline, name: str, table: DeltaTable, rule: str
) -> tuple[QuarantinedRecord, ...]:
    names = [field.name for field in table.schema().fields]
    shows = personal.column_visibility(source, pipeline, "silver", f"{name}{QUARANTINE}")
    of_record = personal.record_visibility(source, pipeline, name)
    masks = personal.has_personal_data(source, pipeline)
    data = [column for column in names if column not in (*ENGINE_COLUMNS, _RULES, _WHEN, _FILE, RECORD)]
    data = data[: one_table.SAMPLE_COLUMNS]
    keys = [key for key in KEYS if key != _FILE]
    columns = [*data, *(column for column in (_RULES, _WHEN, _FILE, RECORD, *keys) if column in names)]
    version = (tables.table_id(table), table.version(), tuple(columns))
    rows = source.remember(
        ("examples", table.table_uri, rule), version,
        lambda: _records_with_rule(table, columns, rule) if rule else one_table.newest_rows(table, columns, EXAMPLES),
    )  # fmt: skip
    discards = discarded.discards_of_rows(source, source.lake(pipeline), name, rows)
    return tuple(_record(row, data, shows, of_record, discards.get(n), masks=masks) for n, row in enumerate(rows))


def _records_with_rule(table: DeltaTable, columns: Sequence[str], rule: str) -> list[dict[str, Any]]:
    """Return the newest records that broke a rule."""
    examples: list[dict[str, Any]] = []
    files = tables.statistics(table, "path", "modification_time").sort_by([("modification_time", "descending")])
    if tables.filesystem(table) is None or not tables.is_plain(table):
        return examples
    for path in files["path"].to_pylist()[:FILES]:
        read = tables.files_of(table, [path])
        for batch in read.to_batches(columns=list(columns), batch_readahead=1, fragment_readahead=1):
            rules = batch[_RULES]
            hits = pc.filter(pc.list_parent_indices(rules), pc.equal(pc.list_flatten(rules), rule))
            examples += one_table.rows_of(batch.take(pc.unique(hits).slice(0, EXAMPLES)))
            if len(examples) >= EXAMPLES:
                return examples[:EXAMPLES]
    return examples


def _record(
    row: dict[str, Any],
    data: Sequence[str],
    shows: personal.Shows,
    of_record: personal.Shows,
    discard: dict[str, Any] | None,
    *,
    masks: bool,
) -> QuarantinedRecord:
    values = tuple((name, personal.text_of(row.get(name)) if shows(name) else personal.HIDDEN) for name in data)
    text = personal.masked_record(row.get(RECORD), of_record, masks=masks)
    facts_of_discard = (discard["discarded_at"], discard["discarded_by"], discard["note"]) if discard else ()
    return QuarantinedRecord(
        tuple(row.get(_RULES) or ()), text or "", values, str(row.get(_FILE) or ""), row.get(_WHEN), *facts_of_discard
    )
