"""Names of the lake's tables in a query: ``pipeline.table``, ``database.table``, or ``table``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sluicegate.definition import Pipeline
from sluicegate.lake import layout
from sluicegate.settings import Settings
from sluicegate.spark_sql.order_by import Ordering
from sluicegate.tools.sqlshell import errors

# Names that a hint has; the others are counted.
SHOWN = 8


@dataclass(frozen=True)
class QueryTable:
    """Table that a query can name: its label ``pipeline.table``, its URI, and the order in its definition."""

    label: str
    uri: str
    ordering: Ordering


def known_tables(pipelines: Mapping[str, Pipeline], settings: Settings) -> dict[str, list[QueryTable]]:
    """Return the names that a query may use, in lower case, each with the tables that it may mean."""
    tables_by_name: dict[str, list[QueryTable]] = {}
    short_names: list[tuple[str, QueryTable]] = []
    for pipeline in pipelines.values():
        pipeline_settings = pipeline.settings if pipeline.settings.target else settings
        lake = layout.Lake(pipeline_settings.lake, pipeline.name)
        places = {name: lake.table("bronze", name) for name in pipeline.bronze}
        for name in pipeline.silver:
            places |= {name: lake.table("silver", name), f"{name}_quarantine": lake.quarantine(name)}
        places |= {name: lake.table("silver", name) for name in pipeline.deidentified_tables}
        places |= {name: lake.table("gold", name) for name in pipeline.gold}
        places |= {layout.rejected_table(name): layout.rejected_table(places[name]) for name in pipeline.ruled}
        for name, uri in places.items():
            ordering = pipeline.gold[name].ordering if name in pipeline.gold else Ordering()
            table = QueryTable(f"{pipeline.name}.{name}", uri, ordering)
            tables_by_name[table.label.lower()] = [table]
            short_names.append((name, table))
            if pipeline.database is not None and pipeline.database.name.lower() != pipeline.name.lower():
                short_names.append((f"{pipeline.database.name}.{name}", table))
    whole = set(tables_by_name)  # a pipeline of the same name comes before a database
    for name, table in short_names:
        if name.lower() not in whole:
            tables_by_name.setdefault(name.lower(), []).append(table)
    return tables_by_name


def written_name(node: exp.Table) -> str:
    """Return the name of a table as a query writes it, with its pipeline or database."""
    return ".".join(part.name for part in node.parts)


def find_table(node: exp.Table, sql: str, tables_by_name: Mapping[str, list[QueryTable]]) -> QueryTable:
    """Return the table that a query names.

    Raises:
        QueryError: if there is none of that name, or more than one.
    """
    name = written_name(node)
    matches = tables_by_name.get(name.lower(), [])
    if len(matches) == 1:
        return matches[0]
    if matches:
        labels = ", ".join(table.label for table in matches)
        raise errors.error_at(node.this, sql, f"ambiguous table name {name}", hint=f"use one of {labels}")
    raise errors.error_at(node.this, sql, f"unknown table {name}", hint=_hint(name, tables_by_name))


def _hint(name: str, tables_by_name: Mapping[str, list[QueryTable]]) -> str:
    """Say what to write in the place of a name that no table has."""
    labels = list(dict.fromkeys(table.label for tables in tables_by_name.values() for table in tables))
    owner, dot, _ = name.lower().rpartition(".")
    owners = {label.rpartition(".")[0] for label in tables_by_name}
    is_defined = not dot or owner in owners
    # A table of another pipeline is meant only if the name of the pipeline is a slip.
    if is_defined or difflib.get_close_matches(owner, owners, 1, 0.7):
        nearest = difflib.get_close_matches(name.lower(), tables_by_name, 1, 0.6)
        if nearest:
            candidates = tables_by_name[nearest[0]]
            # Qualified where the short name is ambiguous.
            suggestion = nearest[0] if len(candidates) == 1 else candidates[0].label
            return f"did you mean {suggestion}?"
    if not is_defined:
        return f"the definition of {owner} cannot be read here: {_help(labels)}"
    if not labels:
        return ""
    of_owner = [label for label in labels if dot and label.lower().startswith(f"{owner}.")]
    return f"tables: {_list_names(of_owner or labels)}"


def _help(labels: Sequence[str]) -> str:
    """Say how to reach the tables of a pipeline whose definition cannot be read, and which tables can be."""
    text = "correct it, or set its folder with --pipelines"
    pipelines = list(dict.fromkeys(label.partition(".")[0] for label in labels))
    if pipelines:
        text += f"; those here are of {_list_names(pipelines)}"
    return text


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
