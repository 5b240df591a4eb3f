"""Verification that no file and no record is lost or doubled. Read by delta-rs; no JVM. Gold is in gold/verify.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from shlex import quote
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.console import files
from sluicegate.flow import stream_progress
from sluicegate.flow.finding import Finding
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.landing import file_status, moved_files
from sluicegate.monitor import verify_archive, verify_delta_source, verify_kafka
from sluicegate.schema.columns import FLOW, ROW

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.settings import Settings

NO_IDS = pa.schema([("_chunk", pa.int64()), ("_pos", pa.int64())])

# Records named in a finding; all are counted.
SHOWN = 10

# What is on record of the rows of each file, and the column that such rows have.
COUNTED = {"corrupt": "_corrupt_record", "rescued": "_rescued_data"}


def findings(pipeline: Pipeline, settings: Settings, limit: int | None = None) -> list[Finding]:
    """Proves by identity that nothing is lost or doubled; returns what does not hold, empty if all does.

    Every file of the ledger up to bronze's offset has a status, and as many rows in bronze as that says. Every record
    of a silver table's source, up to that table's offset, is in exactly one of silver, quarantine and set-aside; of a
    table whose records give many rows each row is, and no number of a record's rows is missing. A
    de-identified table has exactly the records that its silver table had at its offset. What is past the offsets is
    reported by ``monitor.backlog.findings``.

    Args:
        pipeline: the definition.
        settings: where things are.
        limit: tables of more rows are not read, only the row counts of their logs must add up. None: all are read.
    """
    at = layout.Lake(settings.lake, pipeline.name)
    found: list[Finding] = []
    for name, bronze in pipeline.bronze.items():
        if bronze.kafka is not None:
            found += verify_kafka.findings(at, name)
        elif bronze.of_files:
            found += _of_files(at, name, limit)
            found += verify_archive.findings(pipeline, name, at)
        else:
            refresh = f"sluicegate run {pipeline.name} --full-refresh {name}"
            wrong = verify_delta_source.verify(at, name, bronze.path)
            found += [Finding("wrong", name, one.removeprefix(f"{name}: "), refresh) for one in wrong]
    for name, sources in _sources(pipeline, at):
        found += _of_records(at, name, sources, limit)
    return found


def provable(pipeline: Pipeline, settings: Settings) -> Iterator[tuple[str, int, bool]]:
    """Each silver table that is there, its version, and whether its records can be compared with those of its sources.

    They cannot where a source is gone, has been replaced by another table, or lacks the version that was taken in, or
    where the table's flows have changed.
    """
    at = layout.Lake(settings.lake, pipeline.name)
    for name, sources in _sources(pipeline, at):
        table = tables.delta_table(at.table("silver", name))
        if table is not None:
            yield name, table.version(), _is_provable(table, name, sources)


def _is_provable(table: DeltaTable, name: str, sources: Mapping[str, str]) -> bool:
    if any(tables.delta_table(uri) is None for uri in sources.values()):
        return False
    try:
        return bool(_taken_in(table, name, sources))
    except DeltaError:  # which is a finding of its own
        return False


def _sources(pipeline: Pipeline, at: layout.Lake) -> Iterator[tuple[str, dict[str, str]]]:
    """Each silver table with the tables that its flows follow."""
    for name, table in pipeline.silver.items():
        yield (
            name,
            {
                flow: at.table("bronze" if maker.stream in pipeline.bronze else "silver", maker.stream)
                for flow, maker in table.makers.items()
            },
        )
    for name, of in pipeline.deidentified_tables.items():
        yield name, {"": at.table("silver", of)}


def _of_files(at: layout.Lake, name: str, limit: int | None) -> Iterator[Finding]:
    ledger, bronze = tables.delta_table(at.ledger(name)), tables.delta_table(at.table("bronze", name))
    if ledger is None:
        return
    reset = f"sluicegate reset {at.pipeline} {name}"
    if bronze is None:
        if gone := tables.rows(tables.delta_table(at.outcome(name))):
            what = f"the table is gone, into which {gone:,} files were read; a run reads them again"
            yield Finding("wrong", name, what, f"sluicegate run {at.pipeline}")
        return
    offset = (
        offsets.committed_offset(bronze, offsets.app_id("bronze", name, ledger), offsets.lineage(bronze)).offset or 0
    )
    passed = [entry for entry in file_status.statuses(at, name).to_pylist() if entry["chunk"] <= offset]
    if untold := file_status.untold(at, name):
        count = sum(entry["chunk"] in untold for entry in passed)
        what = f"the status of {files(count)} is not on record yet, as a run ended right after its commit"
        yield Finding("behind", name, what, f"sluicegate run {at.pipeline}")
    if limit is not None and (there := tables.rows(bronze)) > limit:
        gave = sum(_gave(entry) or 0 for entry in passed)
        if gave != there and not untold:
            yield Finding("wrong", name, f"its files gave {gave:,} rows, and {there:,} are in the table", reset)
        return
    said = file_status.manifests(bronze, ledger, name)
    moved = {entry["path"] for entry in passed if entry["state"] == "moved"}
    known_as = {former: path for path, former in moved_files.aliases(ledger, moved).items()}
    yield from _each_file(at, name, bronze, passed, said, untold, known_as)


def _each_file(
    at: layout.Lake,
    name: str,
    bronze: DeltaTable,
    passed: Sequence[Mapping[str, Any]],
    said: Mapping[tuple[int, str], int],
    untold: Set[int],
    known_as: Mapping[str, str],
) -> Iterator[Finding]:
    """Compares each file's rows in bronze with its own record count and with the rows on record for it.

    Args:
        at: the lake.
        name: the bronze table.
        bronze: its opened table.
        passed: entries of the ledger up to its offset.
        said: record counts by the files' own manifests, by ledger batch and path.
        untold: ledger batches whose file status is not on record yet.
        known_as: present names of files of a former landing folder.
    """
    reset = f"sluicegate reset {at.pipeline} {name}"
    columns = {column: pc.field(column) for column in ("_chunk", "_pos", "source_file")}
    columns |= {count: pc.field(column).is_valid().cast(pa.int64()) for count, column in COUNTED.items()}
    rows = tables.dataset(bronze).to_table(columns)
    identities = rows.group_by(["_chunk", "_pos"]).aggregate([([], "count_all")])
    if identities.num_rows != rows.num_rows:
        what = f"{rows.num_rows - identities.num_rows:,} records have the identity of another"
        yield Finding("wrong", name, what, reset)
    sums: list[Any] = [([], "count_all"), *((count, "sum") for count in COUNTED)]
    found = {
        (group["_chunk"], layout.canonical(group["source_file"] or "")): group
        for group in rows.group_by(["_chunk", "source_file"]).aggregate(sums).to_pylist()
    }
    for entry in passed:
        counts, recorded = found.pop((entry["chunk"], entry["path"]), {}), _gave(entry)
        there = counts.get("count_all", 0)
        if recorded is None and entry["chunk"] in untold:
            recorded = said.get((entry["chunk"], entry["path"]), there)  # what the next run puts on record
        reload = f"sluicegate reload {at.pipeline} {name} --files {quote(known_as.get(entry['path'], entry['path']))}"
        if recorded is None:
            yield Finding("wrong", name, f"no status is on record for {entry['path']}", reload)
        elif entry["state"] in ("ingested", "archived") and said.get((entry["chunk"], entry["path"]), there) != there:
            has = said[entry["chunk"], entry["path"]]
            yield Finding("wrong", name, f"{entry['path']} has {has:,} records, and {there:,} are in the table", reload)
        elif recorded != there:
            yield Finding("wrong", name, f"{entry['path']} gave {recorded} rows, and {there} are in the table", reload)
        elif recorded and entry["chunk"] not in untold:
            yield from _miscounted(name, entry, counts, reload)
    for _, path in found:
        yield Finding("wrong", name, f"rows of {path} are in the table, but not the file in the ledger", reset)


def _miscounted(name: str, entry: Mapping[str, Any], counts: Mapping[str, int], reload: str) -> Iterator[Finding]:
    """Compares how many rows of a file are on record as corrupt or rescued with those in the table."""
    for count in COUNTED:
        there = counts[f"{count}_sum"]
        if entry[count] != there:
            what = f"{entry['path']} has {entry[count]:,} {count} rows on record, and {there:,} are in the table"
            yield Finding("wrong", name, what, reload)


def _gave(entry: Mapping[str, Any]) -> int | None:
    """Rows that a file gave and that are still its own; None if nothing is on record."""
    return entry["rows"] if entry["state"] not in ("replaced", "skipped", "moved") else 0


def _of_records(at: layout.Lake, name: str, sources: Mapping[str, str], limit: int | None) -> Iterator[Finding]:
    """What is not right about the records of a silver table.

    Args:
        at: the lake.
        name: the table.
        sources: the table that each of its flows follows, by the flow's name; an empty name, if there is one.
        limit: see ``findings``.
    """
    target = tables.delta_table(at.table("silver", name))
    try:
        taken = _taken_in(target, name, sources) if target is not None else {}
    except DeltaError as error:  # the source was put back, or has lost its newest commits
        what = "the version of its source that it has taken in is not in the log of that"
        yield Finding("wrong", name, f"{what}: {str(error).splitlines()[0]}")
        return
    if target is None or not taken:
        return
    refresh = f"sluicegate run {at.pipeline} --full-refresh {name}"
    places = [target, *_side_tables(at, name)]
    several = "" not in taken
    by_flow = several or any(_has(source, FLOW) for source in taken.values())
    numbered = any(_has(source, ROW) for source in taken.values())
    record_id = [*NO_IDS.names, *([FLOW] if by_flow else []), *([ROW] if numbered else [])]
    many = _has(target, ROW) and ROW not in record_id
    if limit is not None and (read := sum(map(tables.rows, taken.values()))) > limit:
        there = sum(tables.rows(place) for place in places)
        if read > there if many else read != there:
            yield Finding("wrong", name, f"{read:,} records were read, and {there:,} are in its tables", refresh)
        return
    row_id = [*record_id, *([ROW] if many else [])]
    came = pa.concat_tables([_came(source, record_id, flow) for flow, source in taken.items()])
    went = pa.concat_tables([_identities(place, row_id) for place in places])
    twice = went.group_by(row_id).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    lost = came.join(went, keys=record_id, join_type="left anti")
    strange = went.join(came, keys=record_id, join_type="left anti")
    for records, what in (
        (twice, "rows are in more than one place" if many else "records are in more than one place"),
        (lost, "records are in no place"),
        (strange, "records have no source"),
        (_half(went, record_id) if many else lost.slice(0, 0), "records are without some of their rows"),
    ):
        if records.num_rows:
            yield Finding("wrong", name, f"{records.num_rows:,} {what}, such as {_named(records)}", refresh)


def _side_tables(at: layout.Lake, name: str) -> list[DeltaTable | None]:
    return [tables.delta_table(at.quarantine(name)), tables.delta_table(at.set_aside(name))]


def _taken_in(target: DeltaTable, name: str, sources: Mapping[str, str]) -> dict[str, DeltaTable]:
    """The tables that a silver table follows, as of the versions that it has taken in, by the names of its flows.

    None are given where it is to be made again, as it is filled by one flow now and was by several, or the other way.
    """
    there = {flow: table for flow, uri in sources.items() if (table := tables.delta_table(uri)) is not None}
    offsets_of_flows = stream_progress.recorded(log.last_commit_of_ours(target))
    if "" in sources:
        if "" not in there or offsets_of_flows is not None:
            return {}
        offset = tables.txn_version(target, offsets.app_id("silver", name, there[""]))
        return {"": tables.table_at(sources[""], version=offset)}
    if offsets_of_flows is None or any(flow not in sources for flow in offsets_of_flows):
        return {}  # what the next run makes right
    known = {flow: said for flow, said in offsets_of_flows.items() if flow in there}
    if any(said["source_id"] != tables.table_id(there[flow]) for flow, said in known.items()):
        return {}
    return {flow: tables.table_at(sources[flow], version=int(said["until"])) for flow, said in known.items()}


def _has(table: DeltaTable, column: str) -> bool:
    """Whether a table has a column, such as that of the numbers of rows within their records."""
    return column in {field.name for field in table.schema().fields}


def _came(source: DeltaTable, record_id: Sequence[str], flow: str) -> pa.Table:
    """Identities of the records of a source, as they are in a table that follows it by a flow."""
    rows = _identities(source, record_id)
    if not flow:
        return rows
    inner = rows[FLOW]
    named = pc.coalesce(pc.binary_join_element_wise(pa.scalar(flow), inner, "/"), pa.scalar(flow))
    rows = rows.set_column(rows.column_names.index(FLOW), FLOW, named)
    if ROW in record_id and not _has(source, ROW):
        rows = rows.set_column(rows.column_names.index(ROW), ROW, pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows))
    return rows


def _identities(table: DeltaTable | None, names: Sequence[str]) -> pa.Table:
    """Identities of a table's rows; a column that it does not have, as a run was stopped that makes it, is NULL."""
    schema = pa.schema([(name, pa.string() if name == FLOW else pa.int64()) for name in names])
    if table is None:
        return schema.empty_table()
    there = [name for name in names if name in {field.name for field in table.schema().fields}]
    rows = tables.dataset(table).to_table(there)
    columns = [rows[f.name].cast(f.type) if f.name in there else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _half(rows: pa.Table, record_id: Sequence[str]) -> pa.Table:
    """Records whose rows are not numbered from 1 through, and that have not the only number 0, for no row at all."""
    numbers = rows.group_by(record_id).aggregate([(ROW, "min"), (ROW, "max"), ([], "count_all")])
    least, most, count = (pc.field(name) for name in (f"{ROW}_min", f"{ROW}_max", "count_all"))
    through = ((least == 1) & (most == count)) | ((least == 0) & (most == 0) & (count == 1))
    return numbers.filter(~through)


def _named(records: pa.Table) -> str:
    """Identities of the first records, for a finding."""
    order = [(name, "ascending") for name in NO_IDS.names]
    first = records.select(NO_IDS.names).sort_by(order).slice(0, SHOWN).to_pylist()
    more = ", …" if records.num_rows > SHOWN else ""
    names = ", ".join("{_chunk}/{_pos}".format(**row) for row in first)
    return f"{names}{more} (chunk/position)"
