"""Status of a pipeline: rows and state of its tables, and the status of each landed file. Read by delta-rs; no JVM.

What only the files need is imported for them: pyarrow takes longer to import than the tables take to be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluicegate.definition.pipeline.model import bronze_table
from sluicegate.errors import UserError
from sluicegate.flow.flows import open_all_tables
from sluicegate.flow.verification.finding import FindingKind
from sluicegate.lake import layout
from sluicegate.lake.table import Tables
from sluicegate.landing.file_states import FileStatus
from sluicegate.monitor.plan import Pending, TableState, pending

if TYPE_CHECKING:
    import pyarrow as pa

    from sluicegate.definition import BronzeTable, Pipeline
    from sluicegate.lake.table import Tables
    from sluicegate.landing.discovery import Discovery
    from sluicegate.settings import Settings


@dataclass(frozen=True)
class TableFacts:
    """What one table has.

    Attributes:
        layer: bronze, silver or gold.
        table: its name.
        rows: rows in it.
        version: its Delta version; None while it does not exist.
        changed: when a run last changed it (UTC).
        quarantined: rows of its quarantine table that wait (silver).
        discarded: rows of it that a person has discarded.
        set_aside: records set aside: duplicates, superseded, dropped, filtered (silver).
        rejected: rows for which its newest batch was refused.
    """

    layer: str
    table: str
    rows: int
    version: int | None
    changed: datetime | None
    quarantined: int
    discarded: int
    set_aside: int
    rejected: int


@dataclass(frozen=True)
class TableStatus(TableFacts):
    """Status of one table: what it has, and its state.

    Attributes:
        state: ``up to date``, ``behind``, or why it waits; ``as its last run left it`` where only a run can ask Kafka.
    """

    state: str


@dataclass(frozen=True)
class Status:
    """Status of a pipeline: its tables and its backlog."""

    pipeline: str
    tables: list[TableStatus]
    waiting: Pending


def status(pipeline: Pipeline, settings: Settings) -> Status:
    """Read the status of all tables of a pipeline.

    Raises:
        LandingMissing: a landing folder does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    lake = layout.Lake(settings.lake, pipeline.name)
    opened = open_all_tables(pipeline, lake)
    waiting = pending(pipeline, settings, opened)
    tables = []
    for work in waiting.tables:
        state: str = work.state
        if work.state == TableState.BLOCKED:
            state = work.progress.why
        has = facts(opened, lake, work.layer, work.table)
        if has.quarantined:
            discarded = discarded_rows(lake, work.table, opened)
            has = replace(has, quarantined=has.quarantined - discarded, discarded=discarded)
        tables.append(TableStatus(**vars(has), state=state))
    return Status(pipeline.name, tables, waiting)


def facts(opened: Tables, lake: layout.Lake, layer: str, name: str) -> TableFacts:
    """Return what one table has: of the table itself and of those beside it.

    Discarded rows of a quarantine count as quarantined here, since each of them is looked for, which takes long.

    Raises:
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    uri = lake.table(layer, name)
    table = opened[uri]
    last = table.last_own_commit
    quarantined, aside = 0, 0
    if layer == "silver":
        quarantined, aside = opened[lake.quarantine(name)].rows, opened[lake.set_aside(name)].rows
    return TableFacts(
        layer, name, table.rows, table.version if table.delta is not None else None,
        datetime.fromtimestamp(last.timestamp / 1000, UTC) if last else None, quarantined, 0, aside,
        opened[layout.rejected_table(uri)].rows,
    )  # fmt: skip


def discarded_rows(lake: layout.Lake, name: str, opened: Tables) -> int:
    """Count the rows of a quarantine, of which there are some, that a person has discarded."""
    quarantine, discard_log = opened[lake.quarantine(name)].delta, opened[lake.discards(name)].delta
    if quarantine is None or discard_log is None:
        return 0
    from sluicegate.lake import discards

    return discards.discarded_rows(quarantine, discard_log)


def verify(pipeline: Pipeline, settings: Settings, limit: int | None = None) -> list[str]:
    """Return the findings of kind ``wrong`` about files and records, in words. See ``monitor.verify.findings``."""
    from sluicegate.monitor import verify as monitor_verify

    return [
        str(finding)
        for finding in monitor_verify.findings(pipeline, settings, limit)
        if finding.kind == FindingKind.WRONG
    ]


def files(
    name: str, pipeline: Pipeline, settings: Settings, states: Sequence[str] = (), newest: int | None = None
) -> pa.Table:
    """Return the ledger of a bronze table with what became of each file, and the files that wait, oldest first.

    Each entry has path, size, modification_time, chunk, discovered, rows, corrupt, rescued, error, version and ingested
    of the commit, and state: that of ``landing.file_status.statuses``, and for files that are not in the ledger
    ``settling``, ``waiting``, ``changed`` (since it was read) or ``refused``: passed over, for the reason in ``error``
    (a link that leads out of the folder, what cannot be read). The ``error`` of a file that is ``skipped`` names the
    list that it was entered from, if it was. For a bronze table of a Delta source, one entry for each
    run, see ``monitor.verify_delta_source.entries``; of Kafka's topics, one for each range of offsets, whose size is
    their number.

    Args:
        name: the bronze table.
        pipeline: its pipeline.
        settings: where things are.
        states: only files in these states; none means all.
        newest: only so many, the last of them.

    Raises:
        PipelineMissing: there is no such bronze table.
        UserError: there is no such state.
        LandingMissing: the landing folder does not exist, or cannot be listed.
    """
    table = _demand_table(name, pipeline, states)
    if table.kafka is not None:
        return _choose_entries(ledger_entries(name, table, layout.Lake(settings.lake, pipeline.name)), states, newest)
    if table.reads_files:
        return _file_entries(name, pipeline, settings, states, newest)
    import pyarrow as pa

    from sluicegate.landing import file_status

    return pa.Table.from_pylist(_delta_entries(name, pipeline, settings, states, newest), file_status.STATUSES)


def _demand_table(name: str, pipeline: Pipeline, states: Sequence[str]) -> BronzeTable:
    table = bronze_table(pipeline, name)
    unknown = sorted(set(states) - {*FileStatus})
    if unknown:
        raise UserError(f"unknown file state {unknown[0]}", hint=f"states: {', '.join(FileStatus)}")
    return table


def _delta_entries(
    name: str, pipeline: Pipeline, settings: Settings, states: Sequence[str], newest: int | None
) -> list[dict[str, Any]]:
    from sluicegate.monitor import verify_delta_source

    lake = layout.Lake(settings.lake, pipeline.name)
    of_delta = verify_delta_source.entries(lake, name, pipeline.bronze[name].path)
    chosen = [entry for entry in of_delta if not states or entry["state"] in states]
    if newest:
        return chosen[max(len(chosen) - newest, 0) :]
    return chosen


def _file_entries(
    name: str, pipeline: Pipeline, settings: Settings, states: Sequence[str], newest: int | None
) -> pa.Table:
    import pyarrow as pa

    from sluicegate.landing import discovery

    lake = layout.Lake(settings.lake, pipeline.name)
    discovered = discovery.discover(name, pipeline.bronze[name], lake)
    parts = [ledger_entries(name, pipeline.bronze[name], lake), *of_landing(discovered)]
    entries = pa.concat_tables(parts, promote_options="default")
    return _add_reasons(_choose_entries(entries, states, newest), lake.ledger(name))


def of_landing(discovered: Discovery) -> list[pa.Table]:
    """Return the files in landing that the ledger has not as they are, with states, and why some are refused."""
    import pyarrow as pa

    states = {
        FileStatus.CHANGED: discovered.changed, FileStatus.WAITING: discovered.new,
        FileStatus.SETTLING: discovered.settling,
    }  # fmt: skip
    parts = [table.append_column("state", pa.repeat(pa.scalar(state), len(table))) for state, table in states.items()]
    paths, reasons = list(discovered.refused), list(discovered.refused.values())
    columns = {"path": paths, "state": [FileStatus.REFUSED] * len(paths), "error": reasons}
    return [*parts, pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})]


def _add_reasons(entries: pa.Table, ledger_uri: str) -> pa.Table:
    """Return the entries whose ``error`` is also why a file is skipped, where a list says so."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sluicegate.lake import tables
    from sluicegate.landing.chosen import skip

    skipped = pc.fill_null(pc.equal(entries["state"], FileStatus.SKIPPED), False)
    chunks = entries.filter(skipped)["chunk"].unique().to_pylist()
    ledger = None
    if chunks:
        ledger = tables.delta_table(ledger_uri)
    if ledger is None:
        return entries
    texts = skip.reasons(ledger, chunks)
    reasons = pc.take(
        pa.array(list(texts.values()), pa.string()),
        pc.index_in(entries["chunk"], value_set=pa.array(list(texts), pa.int64())),
    )
    errors = pc.if_else(skipped, reasons, entries["error"])
    return entries.set_column(entries.schema.get_field_index("error"), "error", errors)


def ledger_entries(name: str, table: BronzeTable, lake: layout.Lake) -> pa.Table:
    """Return a ledger's entries with what became of each; of Kafka's without empty ones, where a partition begins."""
    from sluicegate.landing import file_status

    entries = file_status.statuses(lake, name)
    if table.kafka is None:
        return entries
    return nonempty_ranges(entries)


def nonempty_ranges(ranges: pa.Table) -> pa.Table:
    """Return the ranges of Kafka's offsets that are not empty."""
    import pyarrow.compute as pc

    return ranges.filter(pc.field("size") > 0)


def _choose_entries(entries: pa.Table, states: Sequence[str], newest: int | None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if states:
        entries = entries.filter(pc.is_in(entries["state"], value_set=pa.array(states)))
    # Sliced before it becomes Python objects: a million entries are a gigabyte of them.
    return entries.slice(0 if newest is None else max(entries.num_rows - newest, 0))
