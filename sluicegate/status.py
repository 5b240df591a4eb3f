"""What is in a pipeline's tables, and the proof that all of it adds up. Read by delta-rs; no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate import delta_source, lake, landing, marks, outcome
from sluicegate.plan import Pending, pending

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.settings import Settings

NO_IDS = pa.schema([("_chunk", pa.int64()), ("_pos", pa.int64())])


# Of a file: what ``outcome.fates`` says of those in the ledger, and ``files`` of the others.
STATES = ("waiting", "settling", "changed", "ingested", "archived", "failed", "replaced", "dropped", "skipped")


@dataclass(frozen=True)
class TableStatus:
    """One table now.

    Attributes:
        layer: bronze, silver or gold.
        table: its name.
        rows: rows in it.
        version: its Delta version; None while it does not exist.
        changed: when a run last changed it (UTC).
        quarantined: rows in the quarantine beside it (silver).
        set_aside: records set aside: duplicates, superseded, dropped, filtered (silver).
        state: ``up to date``, ``behind``, or why it waits.
    """

    layer: str
    table: str
    rows: int
    version: int | None
    changed: datetime | None
    quarantined: int
    set_aside: int
    state: str


@dataclass
class Status:
    """A pipeline now: its tables, what waits for it, and what a verification found."""

    pipeline: str
    tables: list[TableStatus]
    waiting: Pending
    problems: list[str] = field(default_factory=list)
    verified: bool = False


def status(pipeline: Pipeline, settings: Settings) -> Status:
    """Looks at all tables of a pipeline.

    Raises:
        LandingMissing: a landing folder does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    at = lake.Lake(settings.lake, pipeline.name)
    waiting = pending(pipeline, settings)
    tables = []
    for work in waiting.tables:
        table = lake.delta_table(at.table(work.layer, work.table))
        last = lake.last_commit_of_ours(table)
        beside = [at.quarantine(work.table), at.set_aside(work.table)] if work.layer == "silver" else []
        quarantined, aside = [lake.rows(lake.delta_table(uri)) for uri in beside] or [0, 0]
        state = work.progress.why if work.progress.kind == "blocked" else "behind" if work.work else "up to date"
        tables.append(
            TableStatus(
                work.layer, work.table, lake.rows(table), table.version() if table else None,
                datetime.fromtimestamp(last.timestamp / 1000, UTC) if last else None, quarantined, aside, state,
            )
        )  # fmt: skip
    return Status(pipeline.name, tables, waiting)


def verify(pipeline: Pipeline, settings: Settings, limit: int | None = None) -> list[str]:
    """Proves by identity that nothing is lost or doubled, and returns what does not hold; empty when all does.

    Every file of the ledger that bronze has passed has an outcome, and as many rows in bronze as it says. Every
    record of a silver table's source, up to that table's mark, is in exactly one of silver, quarantine and set-aside.
    A de-identified table has exactly the records that its silver table had at its mark.

    Args:
        pipeline: the definition.
        settings: where things are.
        limit: tables of more rows are not read; what their logs say of their rows has to add up. None: all are read.
    """
    at = lake.Lake(settings.lake, pipeline.name)
    problems = []
    for name, bronze in pipeline.bronze.items():
        problems += _verify_files(at, name, limit) if bronze.of_files else delta_source.verify(at, name, bronze.path)
    for name, table in pipeline.silver.items():
        source = table.stream
        layer = "bronze" if source in pipeline.bronze else "silver"
        problems += _verify_records(at, name, at.table(layer, source), limit)
    for name, of in pipeline.deidentified_tables.items():
        problems += _verify_records(at, name, at.table("silver", of), limit)
    return problems


def _verify_files(at: lake.Lake, name: str, limit: int | None) -> list[str]:
    ledger, bronze = lake.delta_table(at.ledger(name)), lake.delta_table(at.table("bronze", name))
    if ledger is None:
        return []
    if bronze is None:
        gone = lake.rows(lake.delta_table(at.outcome(name)))
        return (
            [f"{name}: the table is gone, into which {gone:,} files were read; a run reads them again"] if gone else []
        )
    mark = marks.reach(bronze, marks.app_id("bronze", name, ledger), marks.lineage(bronze)).mark or 0
    passed = [entry for entry in outcome.fates(at, name).to_pylist() if entry["chunk"] <= mark]
    if limit is not None and (there := lake.rows(bronze)) > limit:
        gave = sum(_gave(entry) or 0 for entry in passed)
        return [f"{name}: its files gave {gave:,} rows, and {there:,} are in the table"] if gave != there else []
    rows = lake.dataset(bronze).to_table(["_chunk", "_pos", "source_file"])
    identities = rows.group_by(["_chunk", "_pos"]).aggregate([([], "count_all")])
    found, problems = {}, []
    if identities.num_rows != rows.num_rows:
        problems.append(f"{name}: {rows.num_rows - identities.num_rows:,} records have the identity of another")
    for group in rows.group_by(["_chunk", "source_file"]).aggregate([([], "count_all")]).to_pylist():
        found[(group["_chunk"], lake.canonical(group["source_file"] or ""))] = group["count_all"]
    for entry in passed:
        there = found.pop((entry["chunk"], entry["path"]), 0)
        told = _gave(entry)
        if told is None:
            problems.append(f"{name}: nothing is known of what became of {entry['path']}")
        elif told != there:
            problems.append(f"{name}: {entry['path']} gave {told} rows, and {there} are in the table")
    return problems + [f"{name}: rows of {path} are in the table, but not the file in the ledger" for _, path in found]


def _gave(entry: Mapping[str, Any]) -> int | None:
    """Rows that a file of the ledger gave and that are still its own; None if nothing is known of it."""
    return entry["rows"] if entry["state"] not in ("replaced", "skipped") else 0


def _verify_records(at: lake.Lake, name: str, source_uri: str, limit: int | None) -> list[str]:
    target, source = lake.delta_table(at.table("silver", name)), lake.delta_table(source_uri)
    if target is None or source is None:
        return []
    mark = lake.mark(target, marks.app_id("silver", name, source))
    asked, places = lake.table_at(source_uri, version=mark), [target, *_beside(at, name)]
    if limit is not None and (read := lake.rows(asked)) > limit:
        there = sum(lake.rows(place) for place in places)
        return [f"{name}: {read:,} records were read, and {there:,} are in its tables"] if read != there else []
    came = _identities(asked)
    went = pa.concat_tables([_identities(place) for place in places])
    problems = []
    twice = went.group_by(NO_IDS.names).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if twice.num_rows:
        problems.append(f"{name}: {twice.num_rows:,} records are in more than one place, such as {_first(twice)}")
    lost = came.join(went, keys=NO_IDS.names, join_type="left anti")
    if lost.num_rows:
        problems.append(f"{name}: {lost.num_rows:,} records are in no place, such as {_first(lost)}")
    strange = went.join(came, keys=NO_IDS.names, join_type="left anti")
    if strange.num_rows:
        problems.append(f"{name}: {strange.num_rows:,} records have no source, such as {_first(strange)}")
    return problems


def _beside(at: lake.Lake, name: str) -> list[DeltaTable | None]:
    return [lake.delta_table(at.quarantine(name)), lake.delta_table(at.set_aside(name))]


def _identities(table: DeltaTable | None) -> pa.Table:
    return NO_IDS.empty_table() if table is None else lake.dataset(table).to_table(NO_IDS.names).cast(NO_IDS)


def _first(records: pa.Table) -> str:
    row = records.select(NO_IDS.names).slice(0, 1).to_pylist()[0]
    return f"{row['_chunk']}/{row['_pos']} (chunk/position)"


def files(
    name: str, pipeline: Pipeline, settings: Settings, states: Sequence[str] = (), newest: int | None = None
) -> list[dict[str, Any]]:
    """The ledger of a bronze table with what became of each file, and the files that wait, oldest first.

    Each entry has path, size, modification_time, chunk, discovered, rows, corrupt, rescued, error, version and ingested
    of the commit, and state: that of ``outcome.fates``, and for files that are not in the ledger ``settling``,
    ``waiting`` or ``changed`` (since it was read). Of a table that reads a Delta table there is an entry for each run's
    versions, see ``delta_source.entries``.

    Args:
        name: the bronze table.
        pipeline: its pipeline.
        settings: where things are.
        states: only files in these states; none means all.
        newest: only so many, the last of them.

    Raises:
        LandingMissing: the landing folder does not exist, or cannot be listed.
    """
    at = lake.Lake(settings.lake, pipeline.name)
    if not pipeline.bronze[name].of_files:
        of_delta = delta_source.entries(at, name, pipeline.bronze[name].path)
        chosen = [entry for entry in of_delta if not states or entry["state"] in states]
        return chosen[max(len(chosen) - newest, 0) :] if newest else chosen
    found = landing.discover(name, pipeline.bronze[name], at)
    parts = [outcome.fates(at, name)]
    for state, table in (("changed", found.changed), ("waiting", found.new), ("settling", found.settling)):
        parts.append(table.append_column("state", pa.repeat(pa.scalar(state), table.num_rows)))
    entries = pa.concat_tables(parts, promote_options="default")
    if states:
        entries = entries.filter(pc.is_in(entries["state"], value_set=pa.array(states)))
    # As Python objects at the very last: a million entries are a gigabyte of them.
    return entries.slice(0 if newest is None else max(entries.num_rows - newest, 0)).to_pylist()  # type: ignore[no-any-return]
