"""Flows of append of a source: the flows of the silver table that they add rows to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sluicegate.spark_sql import union_all
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import QuerySyntax
from sluicegate.tools.migrate.draft import Draft
from sluicegate.tools.migrate.model import Dataset, ParsedSource
from sluicegate.tools.migrate.rewriting import stream_first_table
from sluicegate.tools.migrate.table_names import unique_name
from sluicegate.tools.scaffold.naming import table_name

# Comment on a table with ``as_of_run(…)``.
AS_OF_RUN = "Joined values are those of a row's run, as in a streaming table; without `lookups` rows follow changes."


def take_over(
    source: ParsedSource, tables: Draft, gold: Collection[str], silver: Callable[[Dataset, dict[str, Any]], None]
) -> None:
    """Make each flow a flow of its table, and note in the source those that cannot be one.

    Args:
        source: the source, with its tables renamed.
        tables: the draft's tables.
        gold: names of datasets with rows that are made of several records.
        silver: function that makes a silver table of a dataset that nothing else fills.
    """
    for dataset in [candidate for candidate in source.datasets if candidate.into]:
        reason = _refusal_reason(dataset, source, tables, gold)
        if not reason:
            try:
                fields = _fields(dataset, tables)
            except QuerySyntax as error:
                reason = error.message
        if reason:
            source.leave(dataset.line, dataset.missing_as, reason)
            tables.bronze.pop(dataset.name, None)
            continue
        source.unnamed.pop(dataset.missing_as, None)
        _add_flow(dataset, fields, source, tables, silver)


def _refusal_reason(dataset: Dataset, source: ParsedSource, tables: Draft, gold: Collection[str]) -> str:
    """Return the reason why a flow is not imported, empty if it can be."""
    if [other.name for other in source.datasets].count(dataset.name) > 1:
        return f"another flow into {dataset.into} has its name"
    if dataset.name in gold:
        return "its rows do not each come from one record, which is only possible in gold"
    if dataset.into in tables.bronze or dataset.into in tables.gold:
        return f"{dataset.into} is not a silver table here: combine it with this source in a silver table with flows"
    if "apply_changes" in tables.silver.get(dataset.into, {}):
        return f"{dataset.into} is filled by changes, so its flows must be change flows"
    if source.find_dataset(dataset.into) is None:
        return f"{dataset.into} is not declared in this source"
    return ""


def _fields(dataset: Dataset, tables: Draft) -> dict[str, Any]:
    """Return the fields of the flow, and add its query to the draft."""
    if dataset.query is None:
        return {"from": dataset.name}
    text = dataset.query
    if Query.parse(text).stream is None:
        text = stream_first_table(text) or text
    for objection in Query.parse(text).stream_objections(many=True):
        raise objection
    tables.queries[dataset.name] = text
    fields: dict[str, Any] = {"sql": f"{dataset.name}.sql"}
    if Query.parse(text).stream_objections():
        fields["rows"] = "many"
    return fields | lookups_as_of_run([Query.parse(dataset.query)])


def _add_flow(
    dataset: Dataset,
    fields: dict[str, Any],
    source: ParsedSource,
    tables: Draft,
    silver: Callable[[Dataset, dict[str, Any]], None],
) -> None:
    target, many, lookups = source.find_dataset(dataset.into), fields.pop("rows", None), fields.pop("lookups", {})
    if target is not None and target.name not in tables.silver:
        silver(target, {"flows": {}})
        tables.comments.setdefault(target.name, [target.comment] if target.comment else [])
    table = tables.silver[dataset.into]
    if "flows" not in table:  # the flow that the table has had is called as the table is
        table["flows"] = {dataset.into: {"sql": table.pop("sql")}}
        tables.silver[dataset.into] = {"flows": table.pop("flows"), **table}
        table = tables.silver[dataset.into]
    name = unique_name(table_name(dataset.flow) or f"flow_{dataset.line}", table["flows"])
    if name != dataset.flow:
        source.leave_harmless(dataset.line, f"the name of the flow {dataset.flow}", f"it is called {name} here")
    table["flows"][name] = fields
    if many:
        table["rows"] = "many"
    if lookups:
        table["lookups"] = table.get("lookups", {}) | lookups
        if AS_OF_RUN not in tables.comments.setdefault(dataset.into, []):
            tables.comments[dataset.into].append(AS_OF_RUN)


def lookups_as_of_run(queries: Sequence[Query]) -> dict[str, Any]:
    """Return the field that leaves old rows as they are when a joined table changes, as a streaming table does.

    https://docs.databricks.com/aws/en/ldp/streaming-tables
    """
    joined = [name for query in queries if query.stream for name in query.lookups if name != query.stream]
    if joined:
        return {"lookups": dict.fromkeys(joined, "as_of_run")}
    return {}


def reads(name: str, fields: dict[str, Any], tables: Draft) -> list[str]:
    """List the tables that a table of the draft reads."""
    parts: dict[str, Any] = fields.get("flows", {name: fields})
    names: list[str] = []
    for part in parts.values():
        stem = str(part.get("sql", "")).removesuffix(".sql")
        text = tables.queries.get(stem)
        queries = []
        if text:
            queries = list(map(Query.parse, union_all.branches(text) or [text]))
        names += [read for query in queries for read in query.tables]
        if "from" in part:
            names.append(part["from"])
    return list(dict.fromkeys(names))
