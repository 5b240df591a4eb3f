"""What the logs of tables say of their data files, against the footers of these: by it readers leave files unopened.

A file whose log entry has another row count, or bounds that its values are not within, is skipped by queries that look
for rows of it, though whoever reads the whole table finds each row.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.parquet import FileMetaData

from sluicegate.definition import Pipeline
from sluicegate.errors import DamagedTable, Where
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import footers, layout, tables
from sluicegate.lake.damage import whole

# Files that are named of one table; the others are counted.
SHOWN = 3

# A log has times in milliseconds, and delta-rs decimals as doubles.
MILLISECOND = timedelta(milliseconds=1)
DIGITS = Decimal("1e-14")


def findings(pipeline: Pipeline, at: layout.Lake) -> Iterator[Finding]:
    """Data files of which a table's log says what their footers do not.

    Raises:
        DamagedTable: a data file of a table is gone, or has no footer.
    """
    for name, uri in _tables(pipeline, at):
        table = tables.delta_table(uri)
        if table is None:
            continue
        table_name = uri.rstrip("/").rpartition("/")[2]
        side = ""
        if table_name != name:
            side = f"{table_name}, "
        if not tables.is_plain(table):
            sentence = f"{side}the statistics of its files, whose rows are not exactly those of the table"
            yield Finding(FindingKind.UNSEEN, name, sentence)
            continue
        try:
            wrong = [f"{path}: by the table's log {fault}" for path, fault in _wrong_files(uri, table)]
        except (ValueError, OverflowError) as error:  # of times after the year 9999
            yield Finding(FindingKind.UNSEEN, name, f"{side}the statistics of its files: {error}")
            continue
        for sentence in wrong[:SHOWN]:
            yield Finding(FindingKind.WRONG, name, f"{side}{sentence}")
        if len(wrong) > SHOWN:
            text = f"{side}its log has wrong statistics of {len(wrong) - SHOWN:,} more data files"
            yield Finding(FindingKind.WRONG, name, text)


def _tables(pipeline: Pipeline, at: layout.Lake) -> Iterator[tuple[str, str]]:
    """Yield the address of each table, side table and ledger, with the name of the table by which it is told."""
    for name in pipeline.bronze:
        yield from ((name, uri) for uri in (at.table("bronze", name), at.ledger(name), at.file_status(name)))
    for name in pipeline.silver:
        yield from ((name, uri) for uri in (at.table("silver", name), at.quarantine(name), at.set_aside(name)))
    yield from ((name, at.table("silver", name)) for name in pipeline.deidentified_tables)
    yield from ((name, at.table("gold", name)) for name in pipeline.gold)


def _wrong_files(uri: str, table: DeltaTable) -> Iterator[tuple[str, str]]:
    """Data files of which the log is wrong, and in what."""
    added = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    try:
        footers_of_files = footers.read(uri, [file["path"] for file in added])
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        name = uri.rstrip("/").rpartition("/")[2]
        raise DamagedTable(
            f"{name} cannot be read: one of its data files is missing or damaged",
            where=Where(table=name, file=uri),
            cause=str(error).splitlines()[0],
            hint=whole.BACKUP,
        ) from error
    for file in added:
        if fault := next(_differences(file, footers_of_files[file["path"]]), ""):
            yield file["path"], fault


def _differences(file: Mapping[str, Any], footer: FileMetaData) -> Iterator[str]:
    """Yield what the log says of a data file that its footer does not."""
    count = file.get("num_records")
    if count not in (None, footer.num_rows):
        yield f"it has {_rows(count)}, but its footer says {footer.num_rows:,}"
        return
    for column in range(footer.num_columns):
        name = footer.schema.column(column).path
        least, greatest, nulls = (file.get(f"{kind}.{name}") for kind in ("min", "max", "null_count"))
        if (least, greatest, nulls) == (None, None, None):
            continue
        bounds = _bounds(footer, column)
        if not _is_not_greater(least, bounds.least) or not _is_not_greater(bounds.greatest, greatest):
            yield f"{name} is within bounds that some of its values exceed"
        if nulls is not None and bounds.nulls not in (None, nulls):
            yield f"{name} is NULL in {_rows(nulls)}, but its footer says {bounds.nulls:,}"


def _rows(count: int) -> str:
    if count == 1:
        return "1 row"
    return f"{count:,} rows"


@dataclass(frozen=True)
class _Bounds:
    """Least and greatest value of a column in a data file; None if it has none or the footer does not tell."""

    least: Any = None
    greatest: Any = None
    nulls: int | None = None


def _bounds(footer: FileMetaData, column: int) -> _Bounds:
    groups = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
    if not groups or any(group is None for group in groups):
        return _Bounds()
    nulls = None
    if all(group.has_null_count for group in groups):
        nulls = sum(group.null_count for group in groups)
    # A group of nothing but NULL has neither least nor greatest value.
    full = [group for group in groups if group.num_values]
    if not full or not all(group.has_min_max for group in full):
        return _Bounds(nulls=nulls)
    return _Bounds(min(group.min for group in full), max(group.max for group in full), nulls)


def _is_not_greater(value: Any, bound: Any) -> bool:
    """Return whether a value is at most another, as far as a log has them; True if they cannot be compared."""
    match value, bound:
        case (str(), str()):
            return value.encode("utf-8", "surrogatepass") <= bound.encode("utf-8", "surrogatepass")
        case (datetime(), datetime()):
            return value.replace(tzinfo=None) - MILLISECOND <= bound.replace(tzinfo=None)
        case (datetime(), _) | (_, datetime()):
            return True
        case (date(), date()) | (int(), int()):
            return bool(value <= bound)
        case (int() | float() | Decimal(), int() | float() | Decimal()):
            return _is_about_at_most(value, bound)
    return True


def _is_about_at_most(value: float | Decimal, bound: float | Decimal) -> bool:
    least, greatest = Decimal(value), Decimal(bound)
    if least.is_nan() or greatest.is_nan():
        return True
    if isinstance(value, Decimal) or isinstance(bound, Decimal):
        return least - abs(least) * DIGITS <= greatest
    return least <= greatest
