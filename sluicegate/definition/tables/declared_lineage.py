"""Lineage that a definition declares: of columns that a Python function makes, those that they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from sluicegate.definition.fields import Names, field_error, suggest_or_list

# Columns with what they come from, as ``table.column``. No row depends on it, so no fingerprint has it.
DeclaredLineage = Annotated[dict[str, Names], Field(exclude=True)]


def demand_read(declared: Mapping[str, Sequence[str]], reads: Sequence[str] | None) -> None:
    """Check that declared columns come from columns of tables that the function reads.

    Args:
        declared: columns with their sources.
        reads: the tables that the function reads; None if the rows are not made by a function of the table itself.

    Raises:
        PydanticCustomError: they do not.
    """
    if declared and reads is None:
        message = "lineage is only for Python functions: the lineage of a query is derived from its SQL"
        raise field_error("lineage", message, "remove lineage")
    for column, sources in declared.items():
        for source in sources:
            table, _, name = source.partition(".")
            if not table or not name:
                message = f"{column} comes from {source}, but TABLE.COLUMN is expected"
                raise field_error("lineage", message, "for example orders.id")
            if table.lower() not in (reads or ()):
                message = f"{column} comes from {source}, but the function does not read {table}"
                raise field_error("lineage", message, suggest_or_list(table, reads or (), "its inputs:"))
