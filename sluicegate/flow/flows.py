"""Flows of a definition, in the order of their dependencies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from sluicegate import pii_key
from sluicegate.flow.definition_changes import StoredRows
from sluicegate.flow.model import Flow
from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Tables
from sluicegate.lake.table_description import TAG, Description
from sluicegate.schema import columns
from sluicegate.sql.refresh.strategy import INCREMENTAL, READING

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, GoldTable, Pipeline, SilverTable
    from sluicegate.definition.described import Described
    from sluicegate.definition.silver_flow import SilverFlow
    from sluicegate.sql.refresh.strategy import RefreshStrategy


def flows(pipeline: Pipeline, at: layout.Lake, layer: str, opened: Tables | None = None) -> dict[str, Flow]:
    """The flows of a layer by table, in the order in which they run.

    Args:
        pipeline: the definition.
        at: the lake.
        layer: bronze, silver or gold.
        opened: the handles of the step that this is a part of; how gold is refreshed depends on what tables have now.
    """
    found = _flows(pipeline, at, layer, opened or Tables())
    return {name: _as_defined(flow, pipeline, at) for name, flow in found.items()}


def renewed(flow: Flow, pipeline: Pipeline, at: layout.Lake) -> Flow:
    """A flow as it is now: how a gold table is refreshed depends on the columns that those it reads have by now."""
    if flow.layer != "gold":
        return flow
    found = _gold_flow(flow.table, pipeline.gold[flow.table], at, _addresses(pipeline, at), Tables())
    return _as_defined(found, pipeline, at)


def _as_defined(flow: Flow, pipeline: Pipeline, at: layout.Lake) -> Flow:
    """A flow with what is said of all tables alike: what describes them, their rules, and whether they are private."""
    flow = replace(flow, private=bool(pipeline.pii))
    if flow.table in pipeline.deidentified_tables:
        return flow
    _, table = pipeline.table(flow.table)
    if flow.table in pipeline.silver:
        command = f"sluicegate run {pipeline.name} --full-refresh {flow.table}"
        flow = replace(flow, stored=StoredRows(pipeline.silver[flow.table], command))
    address = _addresses(pipeline, at)
    references = {name: address[name] for name in table.rules_read(flow.table)}
    return replace(
        flow, description=_description(table), rules=table.rules_fingerprint, references=references
    )  # fmt: skip


def _description(table: Described) -> Description:
    """What a definition says of a table besides its rows."""
    tags = {f"{TAG}{name}": text for name, text in table.tags.items()}
    return Description(table.comment, table.column_comments, {**table.table_properties, **tags})


def stored_silver(pipeline: Pipeline, at: layout.Lake) -> list[str]:
    """Silver tables, and de-identified copies, that exist."""
    names = (*pipeline.silver, *pipeline.deidentified_tables)
    return [name for name in names if tables.delta_table(at.table("silver", name)) is not None]


def all_opened(pipeline: Pipeline, at: layout.Lake, opened: Tables | None = None) -> Tables:
    """Handles for a look at a whole pipeline, its tables opened already, each before those that it is made of.

    A run may commit to them meanwhile. In this order a table is at most behind its source, and never ahead of it, as
    only one is whose source was put back to an older state.

    Args:
        pipeline: the definition.
        at: the lake.
        opened: handles of which none is open yet, where they are to be of a kind; by default new ones.
    """
    opened, address = Tables() if opened is None else opened, _addresses(pipeline, at)
    reads = {name: pipeline.reads(name) for name in pipeline.names("silver") + pipeline.names("gold")}
    address |= {copy: at.table("silver", copy) for copy in pipeline.deidentified_tables}
    for name in reversed([*TopologicalSorter(reads).static_order()]):
        opened[address[name]].open()
        # At once, as a commit to them that the table does not know yet is what a run leaves that was stopped.
        for uri in (at.quarantine(name), at.set_aside(name)) if name in pipeline.silver else ():
            opened[uri].open()
    return opened


def _addresses(pipeline: Pipeline, at: layout.Lake) -> dict[str, str]:
    return {name: at.table(of, name) for of in layout.LAYERS for name in getattr(pipeline, of)}


def needs(by_name: Mapping[str, Flow]) -> dict[str, list[str]]:
    """Dependencies among some flows: for each, those of them whose tables it reads."""
    of = {flow.target: name for name, flow in by_name.items()}
    return {
        name: [of[uri] for uri in (*flow.sources, *flow.inputs.values(), *flow.references.values()) if uri in of]
        for name, flow in by_name.items()
    }


def _flows(pipeline: Pipeline, at: layout.Lake, layer: str, opened: Tables) -> dict[str, Flow]:
    address = _addresses(pipeline, at)
    if layer == "bronze":
        return {name: _bronze_flow(name, table, at) for name, table in pipeline.bronze.items()}
    if layer == "gold":
        in_order = {name: pipeline.gold[name] for name in pipeline.in_order("gold")}
        return {name: _gold_flow(name, table, at, address, opened) for name, table in in_order.items()}
    found = {}
    for name in pipeline.in_order("silver"):
        found[name] = _silver_flow(name, pipeline.silver[name], at, address, _any_case(pipeline, at))
        for copy in (copy for copy, of in pipeline.deidentified_tables.items() if of == name):
            found[copy] = _deidentified_flow(copy, pipeline.silver[name], address[name], at)
    return found


def _any_case(pipeline: Pipeline, at: layout.Lake) -> frozenset[str]:
    """Addresses of the bronze tables whose fields go by their names in any case."""
    its = (name for name, table in pipeline.bronze.items() if not table.readerCaseSensitive)
    return frozenset(at.table("bronze", name) for name in its)


def _silver_flow(
    name: str, table: SilverTable, at: layout.Lake, address: Mapping[str, str], any_case: frozenset[str]
) -> Flow:
    others = [read for read in table.joined if table.several or read != table.stream]
    as_of_run = frozenset(read for read in others if table.lookup_mode(read) == "as_of_run")
    return Flow(
        "silver", name, address[table.stream], at.table("silver", name),
        streams={flow: address[maker.stream] for flow, maker in table.several.items()},
        inputs={read: address[read] for read in others},
        followed=frozenset(read for read in others if table.can_follow(read)) - as_of_run,
        as_of_run=as_of_run,
        retries=any(rule.retry for rule in table.expectations.values()),
        side_tables=(at.quarantine(name), at.set_aside(name)),
        by_record=True,
        many=table.many,
        batch_bytes=table.batch_bytes,
        any_case=any_case,
    )  # fmt: skip


def _deidentified_flow(name: str, table: SilverTable, source: str, at: layout.Lake) -> Flow:
    treatments = table.deidentified or {}
    return Flow(
        "silver", name, source, at.table("silver", name),
        by_record=True,
        batch_bytes=table.batch_bytes,
        fingerprint=hashlib.sha256(json.dumps(treatments, sort_keys=True).encode()).hexdigest(),
        key=pii_key.fingerprint() if "hmac" in treatments.values() else "",
        forgets=True,
        treated=frozenset(column.lower() for column in treatments),
        makes={flow: _made(maker) for flow, maker in table.several.items()},
    )  # fmt: skip


def _made(maker: SilverFlow) -> frozenset[str] | None:
    """Columns that a flow is certain to make, in lower case; None if only its data tells."""
    found = (maker.named_as and maker.named_as.outputs) or (maker.query and maker.query.outputs)
    return frozenset(column.lower() for column in found) if found else None


def _bronze_flow(name: str, table: BronzeTable, at: layout.Lake) -> Flow:
    if table.format == "delta":
        return Flow("bronze", name, table.path, at.table("bronze", name), foreign=True)
    of_topics = table.kafka is not None
    return Flow("bronze", name, at.ledger(name), at.table("bronze", name), rebuildable=False, of_topics=of_topics)


def _gold_flow(name: str, table: GoldTable, at: layout.Lake, address: Mapping[str, str], opened: Tables) -> Flow:
    """It follows the first table that it reads, and those that are joined to its rows."""
    source, *others = table.reads
    last = opened[at.table("gold", name)].last_commit_of_ours  # the target before its sources, as in ``progress``
    # Their columns count if all tables are there: what a name means depends on them.
    known = {name: opened[address[name]].delta for name in table.reads}
    schemas = {name: [f.name for f in one.schema().fields if f.name not in columns.ENGINE_COLUMNS]
               for name, one in known.items() if one is not None}  # fmt: skip
    found = table.refresh_strategy(schemas if len(schemas) == len(known) else None)
    parts = [table.fingerprint, *_parts(found), *table.of_stream, *table.dropped_by]
    # A streaming aggregation does not come back to rows that it has: by other rules it is made of all.
    parts += [table.rules_fingerprint] if table.mode and table.rules_fingerprint else []
    flow = Flow(
        "gold", name, address[source], at.table("gold", name),
        inputs={read: address[read] for read in others},
        followed=_followed(found, others),
        fingerprint=hashlib.sha256("\0".join(parts).encode()).hexdigest(),
        row_deltas=found.kind in INCREMENTAL,
        added=found.kind == "stream",
        refresh_strategy=found,
    )  # fmt: skip
    return replace(flow, refresh_strategy=_decided(flow, found, last))


def _followed(found: RefreshStrategy, others: list[str]) -> frozenset[str]:
    """The inputs of whose changes the affected rows are known."""
    if found.kind == "keys":
        return frozenset(others)
    return frozenset(found.grouped.joins if found.grouped and found.kind != "whole" else ())


def _decided(flow: Flow, found: RefreshStrategy, last: log.Commit | None) -> RefreshStrategy:
    """How the table is kept up to date: as its last run found it with Spark's help, else as the query's text tells.

    Of a streaming aggregation the definition tells it, and its commits name the mode instead.
    """
    if found.kind == "stream":
        return found
    said = last.ours if last is not None and last.ours is not None else {}
    if said.get("fingerprint") != flow.fingerprint or "strategy" not in said:
        return replace(found, expected=found.kind in INCREMENTAL)
    if said["strategy"] == found.kind and found.kind != "keys":  # its text does not tell which keys these are
        return found
    why, cheaper = str(said.get("because", "")), str(said.get("instead", ""))
    return replace(found, kind=said["strategy"], why=why, cheaper=cheaper)


def _parts(found: RefreshStrategy) -> list[str]:
    """Parts of a query, and the rules that found them: any difference in these calls for a full refresh."""
    grouped = found.grouped
    if grouped is None:
        return [READING]
    calls = [call.sql() for call in grouped.calls]
    outputs = [part for output in grouped.outputs for part in output]
    return [READING, found.kind, *grouped.groups, str(grouped.keys), *calls, *outputs, grouped.having]
