"""What the logs of tables say of their data files, against the footers of these: by it readers leave files unopened.

A file whose log entry has another row count, or bounds that its values are not within, is skipped by queries that look
for rows of it, though whoever reads the whole table finds each row.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sluicegate.errors import DamagedTable, Where
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import footers, layout, tables
from sluicegate.lake.damage import whole

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.parquet import FileMetaData

    from sluicegate.definition import Pipeline

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
        of = uri.rstrip("/").rpartition("/")[2]
        if of == name:
            side = ""
        else:
            side = f"{of}, "
        if not tables.is_plain(table):
            yield Finding(
                FindingKind.UNSEEN,
                name,
                f"{side}the statistics of its files, whose rows are not exactly those of the table",
            )
            continue
        try:
            wrong = [f"{path}: by the table's log {what}" for path, what in _wrong_files(uri, table)]
        except (ValueError, OverflowError) as error:  # of times after the year 9999
            yield Finding(FindingKind.UNSEEN, name, f"{side}the statistics of its files: {error}")
            continue
        for one in wrong[:SHOWN]:
            yield Finding(FindingKind.WRONG, name, f"{side}{one}")
        if len(wrong) > SHOWN:
            yield Finding(
                FindingKind.WRONG, name, f"{side}its log has wrong statistics of {len(wrong) - SHOWN:,} more data files"
            )


def _tables(pipeline: Pipeline, at: layout.Lake) -> Iterator[tuple[str, str]]:
    """Address of each table, side table and ledger, with the name of the table by which it is told."""
    for name in pipeline.bronze:
        yield from ((name, uri) for uri in (at.table("bronze", name), at.ledger(name), at.file_status(name)))
    for name in pipeline.silver:
        yield from ((name, uri) for uri in (at.table("silver", name), at.quarantine(name), at.set_aside(name)))
    yield from ((name, at.table("silver", name)) for name in pipeline.deidentified_tables)
    yield from ((name, at.table("gold", name)) for name in pipeline.gold)


def _wrong_files(uri: str, table: DeltaTable) -> Iterator[tuple[str, str]]:
    """Data files of which the log is wrong, and in what."""
    said = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    try:
        read = footers.read(uri, [file["path"] for file in said])
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        name = uri.rstrip("/").rpartition("/")[2]
        raise DamagedTable(
            f"{name} cannot be read: one of its data files is missing or damaged",
            where=Where(table=name, file=uri),
            cause=str(error).splitlines()[0],
            hint=whole.BACKUP,
        ) from error
    for file in said:
        if what := next(_differences(file, read[file["path"]]), ""):
            yield file["path"], what


def _differences(said: Mapping[str, Any], footer: FileMetaData) -> Iterator[str]:
    """What the log says of a data file that its footer does not."""
    count = said.get("num_records")
    if count is not None and count != footer.num_rows:
        yield f"it has {_rows(count)}, but its footer says {footer.num_rows:,}"
        return
    for column in range(footer.num_columns):
        name = footer.schema.column(column).path
        if all(said.get(f"{kind}.{name}") is None for kind in ("min", "max", "null_count")):
            continue
        bounds = _bounds(footer, column)
        if bounds is not None and not bounds.are_within(*(said.get(f"{kind}.{name}") for kind in ("min", "max"))):
            yield f"{name} is within bounds that some of its values exceed"
        nulls = said.get(f"null_count.{name}")
        if nulls is not None and bounds is not None and bounds.nulls is not None and nulls != bounds.nulls:
            yield f"{name} is NULL in {_rows(nulls)}, but its footer says {bounds.nulls:,}"


def _rows(count: int) -> str:
    if count == 1:
        return "1 row"
    return f"{count:,} rows"


@dataclass(frozen=True)
class _Bounds:
    """Least and greatest value of a column in a data file; None if it has none or the footer does not tell."""

    least: Any
    greatest: Any
    nulls: int | None

    def are_within(self, least: Any, greatest: Any) -> bool:
        """Whether all values are within the bounds of a log, or that cannot be said."""
        return (least is None or self.least is None or _is_not_greater(least, self.least)) and (
            greatest is None or self.greatest is None or _is_not_greater(self.greatest, greatest)
        )


def _bounds(footer: FileMetaData, column: int) -> _Bounds | None:
    groups = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
    if not groups or any(one is None for one in groups):
        return None
    # A group of nothing but NULL has none.
    full = [one for one in groups if one.num_values]
    if not full or not all(one.has_min_max for one in full):
        return _Bounds(None, None, _nulls(groups))
    return _Bounds(min(one.min for one in full), max(one.max for one in full), _nulls(groups))


def _nulls(groups: Sequence[Any]) -> int | None:
    """How many values are NULL, by the statistics of the row groups; None if not all of them tell."""
    if not all(one.has_null_count for one in groups):
        return None
    return sum(int(one.null_count) for one in groups)


def _is_not_greater(one: Any, other: Any) -> bool:
    """Whether a value is at most another, as far as a log has them; True if they cannot be compared."""
    match one, other:
        case (str(), str()):
            return one.encode("utf-8", "surrogatepass") <= other.encode("utf-8", "surrogatepass")
        case (datetime(), datetime()):
            return one.replace(tzinfo=None) - MILLISECOND <= other.replace(tzinfo=None)
        case (datetime(), _) | (_, datetime()):
            return True
        case (date(), date()):
            return one <= other
        case (bool(), bool()):
            return one <= other
        case (int() | float() | Decimal(), int() | float() | Decimal()):
            return _is_at_most(one, other)
    return True


def _is_at_most(one: float | Decimal, other: float | Decimal) -> bool:
    if any(isinstance(value, float) and isnan(value) for value in (one, other)):
        return True
    if isinstance(one, int) and isinstance(other, int):
        return one <= other
    least, greatest = Decimal(one), Decimal(other)
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        return least - abs(least) * DIGITS <= greatest
    return least <= greatest
