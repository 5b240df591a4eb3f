"""Verification that no file and no record is lost or doubled: by delta-rs, without a JVM. Gold: gold/verify_gold.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.definition import Pipeline
from sluicegate.flow.several import several_progress
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.monitor import verify_archive, verify_delta_source, verify_files, verify_kafka
from sluicegate.schema.columns import FLOW, ROW
from sluicegate.settings import Settings

NO_IDS = pa.schema([("_chunk", pa.int64()), ("_pos", pa.int64())])

_ID_TYPES = {FLOW: pa.string()}

# Records named in a finding; all are counted.
SHOWN = 10


def findings(pipeline: Pipeline, settings: Settings, limit: int | None = None) -> list[Finding]:
    """Prove by identity that nothing is lost or doubled; return what does not hold, empty if all does.

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
    lake = layout.Lake(settings.lake, pipeline.name)
    findings_of_tables: list[Finding] = []
    for name, bronze in pipeline.bronze.items():
        if bronze.kafka is not None:
            findings_of_tables += verify_kafka.findings(lake, name)
        elif bronze.reads_files:
            findings_of_tables += verify_files.findings(lake, name, limit)
            findings_of_tables += verify_archive.findings(pipeline, name, lake)
        else:
            refresh = f"sluicegate run {pipeline.name} --full-refresh {name}"
            for fault in verify_delta_source.verify(lake, name, bronze.path):
                findings_of_tables.append(Finding(FindingKind.WRONG, name, fault.removeprefix(f"{name}: "), refresh))
    for name, sources in _sources(pipeline, lake):
        findings_of_tables += _record_findings(lake, name, sources, limit)
    return findings_of_tables


def provable_tables(pipeline: Pipeline, settings: Settings) -> Iterator[tuple[str, int, bool]]:
    """Yield each silver table, its version, and whether its records can be compared with those of its sources.

    They cannot where a source is gone, has been replaced by another table, or lacks the version that was taken in, or
    where the table's flows have changed.
    """
    lake = layout.Lake(settings.lake, pipeline.name)
    for name, sources in _sources(pipeline, lake):
        table = tables.delta_table(lake.table("silver", name))
        if table is not None:
            yield name, table.version(), _is_provable(table, name, sources)


def _is_provable(table: DeltaTable, name: str, sources: Mapping[str, str]) -> bool:
    if any(tables.delta_table(uri) is None for uri in sources.values()):
        return False
    try:
        return bool(_source_tables(table, name, sources))
    except DeltaError:  # which is a finding of its own
        return False


def _sources(pipeline: Pipeline, lake: layout.Lake) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each silver table with the tables that its flows follow."""
    for name, table in pipeline.silver.items():
        yield name, {flow: _address(pipeline, lake, maker.stream) for flow, maker in table.makers.items()}
    for name, original in pipeline.deidentified_tables.items():
        yield name, {"": lake.table("silver", original)}


def _address(pipeline: Pipeline, lake: layout.Lake, name: str) -> str:
    """Return where a table that a silver table follows lies."""
    if name in pipeline.bronze:
        return lake.table("bronze", name)
    return lake.table("silver", name)


def _record_findings(lake: layout.Lake, name: str, sources: Mapping[str, str], limit: int | None) -> Iterator[Finding]:
    """Yield what is not right about the records of a silver table.

    Args:
        lake: the lake.
        name: the table.
        sources: the table that each of its flows follows, by the flow's name; an empty name, if there is one.
        limit: see ``findings``.
    """
    target = tables.delta_table(lake.table("silver", name))
    if target is None:
        return
    try:
        taken_in = _source_tables(target, name, sources)
    except DeltaError as error:  # the source was put back, or has lost its newest commits
        text = "the log of its source does not contain the version that it has processed"
        yield Finding(FindingKind.WRONG, name, f"{text}: {str(error).splitlines()[0]}")
        return
    if not taken_in:
        return
    refresh = f"sluicegate run {lake.pipeline} --full-refresh {name}"
    places = [target, tables.delta_table(lake.quarantine(name)), tables.delta_table(lake.set_aside(name))]
    identity = _Identity.from_tables(target, taken_in)
    records = sum(map(tables.rows, taken_in.values()))
    if limit is not None and records > limit:
        rows = sum(map(tables.rows, places))
        if not identity.adds_up(records, rows):
            text = f"{records:,} records were read, but its tables have {rows:,}"
            yield Finding(FindingKind.WRONG, name, text, refresh)
        return
    read = pa.concat_tables([_read(source, identity.of_record, flow) for flow, source in taken_in.items()])
    written = pa.concat_tables([_identities(place, identity.of_row) for place in places])
    for rows, fault in identity.faults(read, written):
        if rows.num_rows:
            yield Finding(FindingKind.WRONG, name, f"{rows.num_rows:,} {fault}, such as {_name_records(rows)}", refresh)


@dataclass(frozen=True)
class _Identity:
    """Columns that identify a record of a silver table's sources, and a row of the table and its side tables.

    The two differ where a record gives many rows: these are numbered.
    """

    of_record: tuple[str, ...]
    of_row: tuple[str, ...]

    @classmethod
    def from_tables(cls, target: DeltaTable, sources: Mapping[str, DeltaTable]) -> _Identity:
        of_record = list(NO_IDS.names)
        if "" not in sources or _has_column_anywhere(sources.values(), FLOW):
            of_record.append(FLOW)
        if _has_column_anywhere(sources.values(), ROW):
            of_record.append(ROW)
        of_row = list(of_record)
        if ROW not in of_record and _has_column(target, ROW):
            of_row.append(ROW)
        return cls(tuple(of_record), tuple(of_row))

    @property
    def many_rows(self) -> bool:
        return self.of_row != self.of_record

    def adds_up(self, records: int, rows: int) -> bool:
        """Return whether so many records can have given so many rows."""
        if self.many_rows:
            return rows >= records
        return rows == records

    def faults(self, read: pa.Table, written: pa.Table) -> Iterator[tuple[pa.Table, str]]:
        """Yield the identities that contradict that each record is written once, with what is wrong about them.

        Args:
            read: identities of the records of the sources.
            written: identities of the rows of the table and its side tables.
        """
        unit = "records"
        if self.many_rows:
            unit = "rows"
        counts = written.group_by(self.of_row).aggregate([([], "count_all")])
        yield counts.filter(pc.field("count_all") > 1), f"{unit} are duplicates"
        yield read.join(written, keys=list(self.of_record), join_type="left anti"), "records are missing"
        yield written.join(read, keys=list(self.of_record), join_type="left anti"), "records are not in the source"
        if self.many_rows:
            yield _incomplete_records(written, self.of_record), "records lack some of their rows"


def _source_tables(target: DeltaTable, name: str, sources: Mapping[str, str]) -> dict[str, DeltaTable]:
    """Return the tables that a silver table follows, as of the versions that it has taken in, by its flows.

    None are given where it is to be made again, as it is filled by one flow now and was by several, or the other way.
    """
    opened = {flow: table for flow, uri in sources.items() if (table := tables.delta_table(uri)) is not None}
    offsets_of_flows = several_progress.recorded_offsets(log.last_own_commit(target))
    if "" in sources:
        if "" not in opened or offsets_of_flows is not None:
            return {}
        offset = tables.txn_version(target, offsets.app_id("silver", name, opened[""]))
        return {"": tables.table_at(sources[""], version=offset)}
    if offsets_of_flows is None or not offsets_of_flows.keys() <= sources.keys():
        return {}  # what the next run makes right
    present = {flow: offset for flow, offset in offsets_of_flows.items() if flow in opened}
    if any(offset["source_id"] != tables.table_id(opened[flow]) for flow, offset in present.items()):
        return {}
    return {flow: tables.table_at(sources[flow], version=int(offset["until"])) for flow, offset in present.items()}


def _has_column(table: DeltaTable, column: str) -> bool:
    """Return whether a table has a column, such as that of the numbers of rows within their records."""
    return column in {field.name for field in table.schema().fields}


def _has_column_anywhere(sources: Iterable[DeltaTable], column: str) -> bool:
    return any(_has_column(source, column) for source in sources)


def _read(source: DeltaTable, record_id: Sequence[str], flow: str) -> pa.Table:
    """Return the identities of the records of a source, as they are in a table that follows it by a flow."""
    rows = _identities(source, record_id)
    if not flow:
        return rows
    inner = rows[FLOW]
    names = pc.coalesce(pc.binary_join_element_wise(pa.scalar(flow), inner, "/"), pa.scalar(flow))
    rows = rows.set_column(rows.column_names.index(FLOW), FLOW, names)
    if ROW in record_id and not _has_column(source, ROW):
        rows = rows.set_column(rows.column_names.index(ROW), ROW, pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows))
    return rows


def _identities(table: DeltaTable | None, names: Sequence[str]) -> pa.Table:
    """Return the identities of a table's rows; a column that a stopped run has yet to make is NULL."""
    schema = pa.schema([(name, _ID_TYPES.get(name, pa.int64())) for name in names])
    if table is None:
        return schema.empty_table()
    present = [name for name in names if _has_column(table, name)]
    rows = tables.dataset(table).to_table(present)
    columns = []
    for field in schema:
        if field.name in present:
            columns.append(rows[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.table(columns, schema=schema)


def _incomplete_records(rows: pa.Table, record_id: Sequence[str]) -> pa.Table:
    """Return records whose rows are not numbered from 1 through, nor have the only number 0, for no row at all."""
    numbers = rows.group_by(record_id).aggregate([(ROW, "min"), (ROW, "max"), ([], "count_all")])
    least, most, count = map(pc.field, (f"{ROW}_min", f"{ROW}_max", "count_all"))
    through = ((least == 1) & (most == count)) | ((least == 0) & (most == 0) & (count == 1))
    return numbers.filter(~through)


def _name_records(records: pa.Table) -> str:
    """Return the identities of the first records, for a finding."""
    order = [(name, "ascending") for name in NO_IDS.names]
    first = records.select(NO_IDS.names).sort_by(order).slice(0, SHOWN).to_pylist()
    more = ""
    if records.num_rows > SHOWN:
        more = ", …"
    names = ", ".join("{_chunk}/{_pos}".format(**row) for row in first)
    return f"{names}{more} (chunk/position)"
