"""Name resolution: the table and column that a name in a query refers to, as in Spark.

For a refresh strategy, which is about one FROM and needs a certain answer or none. Lineage follows names through
subqueries and WITH, and says so where a column may come from several: see ``lineage/names.py``.
https://spark.apache.org/docs/latest/sql-ref-name-resolution.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class FromTable:
    """A table of a FROM.

    Attributes:
        alias: its alias, in lower case.
        columns: its columns, in lower case; None if they are not known.
        using: columns joined by USING: unqualified, they refer to a table before it.
        hidden: whether other clauses cannot see it: the table of a semi or an anti join.
    """

    alias: str
    columns: frozenset[str] | None
    using: frozenset[str] = frozenset()
    hidden: bool = False


class Scope:
    """Scope of a FROM clause.

    Args:
        sources: its tables, in order.
        tree: the query, whose qualified names are evidence where columns are not known.
    """

    def __init__(self, sources: Sequence[FromTable], tree: exp.Expr) -> None:
        self.sources = sources
        self.known = all(source.columns is not None for source in sources)
        self._seen = {(c.parts[0].name.lower(), c.parts[1].name.lower())
                      for c in tree.find_all(exp.Column) if len(c.parts) > 1}  # fmt: skip

    def meaning(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Resolve a name to table, column and fields; None if no table has it.

        Args:
            parts: the parts of the name, in lower case.
        """
        # Spark resolves the first part as a table if it can, and else as a column with fields.
        if len(parts) > 1 and self.is_table(parts[0]):
            return tuple(parts)
        matches = self._tables(parts[0])
        if matches is not None:
            return (matches, *parts)
        return None

    def is_table(self, name: str) -> bool:
        """Return whether it is the alias of a table."""
        return any(source.alias == name.lower() for source in self.sources)

    def _tables(self, column: str) -> str | None:
        visible = [source for source in self.sources if not source.hidden]
        if self.known:
            having = [s.alias for s in visible if column in (s.columns or ()) and column not in s.using]
            if len(having) == 1:
                return having[0]
            return None
        if len(visible) == 1:
            return visible[0].alias
        if any(column in source.using for source in visible):
            return visible[0].alias
        named = [source.alias for source in visible if (source.alias, column) in self._seen]
        if len(named) == 1:
            return named[0]
        return ""


def columns_of(schemas: Mapping[str, Sequence[str]], table: str) -> frozenset[str] | None:
    """Return the columns of a table, in lower case; None if they are not known."""
    if table not in schemas:
        return None
    return frozenset(map(str.lower, schemas[table]))
