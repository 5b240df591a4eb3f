"""Handle columns that a definition names and no file has had yet, as the operation before the first change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluicegate.definition.fields import suggest_name
from sluicegate.errors import QueryError, Where
from sluicegate.flow.model import Flow, name_of


def remarks(named: Iterable[str], columns: Iterable[str], flow: Flow) -> Iterator[str]:
    """Yield remarks on columns that ``apply_as_deletes`` reads and the records do not have yet.

    Args:
        named: the columns that ``apply_as_deletes`` reads.
        columns: columns of the records.
        flow: flow that fills the table.

    Raises:
        QueryError: no later record can have the column, as the source is not a bronze table.
    """
    data_column_names = [column for column in columns if not column.startswith("_")]
    present = {column.lower() for column in columns}
    sources = ", ".join(map(name_of, flow.sources))
    for column in named:
        if column.lower() in present:
            continue
        near = suggest_name(column, data_column_names)
        if not _may_appear(flow):
            raise QueryError(
                f"{sources} has no column {column}, which apply_as_deletes of {flow.table} reads",
                where=Where(table=flow.table),
                hint=near or "correct the name, or select the column in the query of that table",
                at="apply_changes",
            )
        remark = (
            f"{sources} has no column {column} yet, so apply_as_deletes treats no record as a delete until it appears"
        )
        yield f"{remark}; {near}" if near else remark


def demand_sequence(column: str, columns: Iterable[str], flow: Flow) -> None:
    """Refuse records without the column that orders them.

    Args:
        column: the column of ``sequence_by``.
        columns: columns of the rows and of the records.
        flow: flow that fills the table.

    Raises:
        QueryError: the records lack the column.
    """
    present = [*columns]
    if column.lower() in {name.lower() for name in present}:
        return
    sources = ", ".join(map(name_of, flow.sources))
    later = (
        f"if later files have it, add it to schemaHints of {sources}, as in {column} TIMESTAMP, and give the earlier "
        f"records a value in a query, as in coalesce({column}, TIMESTAMP '1970-01-01') AS {column}"
    )
    raise QueryError(
        f"{sources} has no column {column}, by which {flow.table} is ordered",
        where=Where(table=flow.table),
        hint="; ".join(filter(None, [suggest_name(column, present), later if _may_appear(flow) else ""])),
        at="sequence_by",
    )


def _may_appear(flow: Flow) -> bool:
    """Return whether later records may have more columns: any file of bronze may add some."""
    return any(source.rstrip("/").split("/")[-2:-1] == ["bronze"] for source in flow.sources)
