"""Views of a definition: queries without a table, which become a part of each query that reads them.

So a view is evaluated over the versions that the batch of its reader is made of, and a change of its text is one of
all its readers' texts.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.definition import graph
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import QuerySyntax
from sluicegate.spark_sql.with_views import add_views, to_one_line


class Views:
    """Views of a definition by name.

    Args:
        written: the query of each view as it is written; None of one whose text has a mistake.

    Attributes:
        names: all names.
        written: those queries.
        reads: the tables and views that each of them names.
        faults: why views cannot be put together with those that they read.
    """

    def __init__(self, written: Mapping[str, Query | None] | None = None) -> None:
        self.names = [*(written or ())]
        self.written = {name: query for name, query in (written or {}).items() if query is not None}
        self.reads = {name: query.tables for name, query in self.written.items()}
        self.faults: dict[str, QuerySyntax] = {}
        self._texts: dict[str, str] = {}
        for name in graph.topological_order(self.reads):
            try:
                query = self.expand(self.written[name])
            except QuerySyntax as error:
                self.faults[name] = error
                continue
            if query is not None and query.stream is None:
                self._texts[name] = to_one_line(query.text)

    def expand(self, query: Query) -> Query | None:
        """Return a query with the views that it reads as its WITH; None if one of these has a mistake, or reads itself.

        Raises:
            QuerySyntax: a WITH of the query has the name of one of these views.
        """
        read = [name for name in query.lookups if name in self.names]
        if not all(name in self._texts for name in read):
            return None
        if read:
            return Query.parse(add_views(query.text, {name: self._texts[name] for name in read}))
        return query

    def tables(self, name: str) -> list[str]:
        """Return the tables that a view reads, also through other views; none for a view with a mistake."""
        if name in self._texts:
            return Query.parse(self._texts[name]).tables
        return []
