"""Derive the flows of a definition, in dependency order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import cast

from sluicegate import pii_key
from sluicegate.definition import BronzeTable, GoldTable, Pipeline, SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.flow.definitions.definition_changes import StoredRows
from sluicegate.flow.model import Fingerprints, Flow
from sluicegate.flow.policies import CopyPolicy, ForeignTablePolicy, LedgerPolicy, QueryPolicy, RecordPolicy
from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Tables
from sluicegate.lake.table_description import TAG, Description
from sluicegate.schema import columns
from sluicegate.spark_sql.refresh.strategy import READING, RefreshStrategy
from sluicegate.spark_sql.refresh.strategy_kind import BY_ROW_DELTAS, StrategyKind


def flows(pipeline: Pipeline, lake: layout.Lake, layer: str, opened: Tables | None = None) -> dict[str, Flow]:
    """Return the flows of a layer by table, in the order in which they run.

    Args:
        pipeline: the definition.
        lake: the lake.
        layer: bronze, silver or gold.
        opened: the handles of the current step; gold's refresh strategy depends on the present tables.
    """
    by_name = _flows(pipeline, lake, layer, opened or Tables())
    return {name: _add_settings(flow, pipeline, lake) for name, flow in by_name.items()}


def renew_flow(flow: Flow, pipeline: Pipeline, lake: layout.Lake) -> Flow:
    """Return the flow with its present strategy: a gold table's depends on the columns that its sources have now."""
    if flow.layer != "gold":
        return flow
    gold = _gold_flow(flow.table, pipeline.gold[flow.table], lake, _addresses(pipeline, lake), Tables())
    return _add_settings(gold, pipeline, lake)


def _add_settings(flow: Flow, pipeline: Pipeline, lake: layout.Lake) -> Flow:
    """Add the settings that every table shares: description, rules, and whether its values are private."""
    flow = replace(flow, private=bool(pipeline.pii))
    if flow.table in pipeline.deidentified_tables:
        return flow
    _, table = pipeline.table(flow.table)
    tags = {f"{TAG}{name}": text for name, text in table.tags.items()}
    return replace(
        flow,
        description=Description(table.comment, table.column_comments, {**table.table_properties, **tags}),
        fingerprints=replace(flow.fingerprints, rules=table.rules_fingerprint),
        references={name: lake.table(pipeline.table(name)[0], name) for name in table.rules_read(flow.table)},
    )


def stored_silver(pipeline: Pipeline, lake: layout.Lake) -> list[str]:
    """Return the silver tables, and de-identified copies, that exist."""
    names = (*pipeline.silver, *pipeline.deidentified_tables)
    return [name for name in names if tables.delta_table(lake.table("silver", name)) is not None]


def open_all_tables(pipeline: Pipeline, lake: layout.Lake, opened: Tables | None = None) -> Tables:
    """Open all tables of a pipeline, each before those that it is built from.

    A run may commit to the tables meanwhile. In this order a table is at most behind its source and never ahead of it;
    only a table whose source was restored to an older state is.

    Args:
        pipeline: the definition.
        lake: the lake.
        opened: unopened handles, if a special kind is needed; by default new ones.
    """
    opened, address = Tables() if opened is None else opened, _addresses(pipeline, lake)
    reads = {name: pipeline.reads(name) for name in pipeline.names("silver") + pipeline.names("gold")}
    address |= {copy: lake.table("silver", copy) for copy in pipeline.deidentified_tables}
    for name in reversed([*TopologicalSorter(reads).static_order()]):
        opened[address[name]].open()
        # At once, as a commit to them that the table does not know yet is what a run leaves that was stopped.
        for uri in (lake.quarantine(name), lake.set_aside(name)) if name in pipeline.silver else ():
            opened[uri].open()
    return opened


def _addresses(pipeline: Pipeline, lake: layout.Lake) -> dict[str, str]:
    return {name: lake.table(of, name) for of in layout.LAYERS for name in getattr(pipeline, of)}


def dependencies(by_name: Mapping[str, Flow]) -> dict[str, list[str]]:
    """Return for each of some flows the others whose tables it reads."""
    of = {flow.target: name for name, flow in by_name.items()}
    return {
        name: [of[uri] for uri in (*flow.sources, *flow.inputs.values(), *flow.references.values()) if uri in of]
        for name, flow in by_name.items()
    }


def _flows(pipeline: Pipeline, lake: layout.Lake, layer: str, opened: Tables) -> dict[str, Flow]:
    address = _addresses(pipeline, lake)
    if layer == "bronze":
        return {name: _bronze_flow(name, table, lake) for name, table in pipeline.bronze.items()}
    if layer == "gold":
        in_order = {name: pipeline.gold[name] for name in pipeline.in_order("gold")}
        return {name: _gold_flow(name, table, lake, address, opened) for name, table in in_order.items()}
    by_name: dict[str, Flow] = {}
    for name in pipeline.in_order("silver"):
        by_name[name] = _silver_flow(name, pipeline, lake, address)
        copies = [copy for copy, source in pipeline.deidentified_tables.items() if source == name]
        by_name |= {copy: _deidentified_flow(copy, pipeline.silver[name], address[name], lake) for copy in copies}
    return by_name


def _case_insensitive_tables(pipeline: Pipeline, lake: layout.Lake) -> frozenset[str]:
    """Return the bronze tables whose fields are case-insensitive, by address."""
    names = (name for name, table in pipeline.bronze.items() if not table.readerCaseSensitive)
    return frozenset(lake.table("bronze", name) for name in names)


def _silver_flow(name: str, pipeline: Pipeline, lake: layout.Lake, address: Mapping[str, str]) -> Flow:
    table = pipeline.silver[name]
    lookups = [read for read in table.lookup_tables if table.flows_or_branches or read != table.stream]
    as_of_run = frozenset(read for read in lookups if table.lookup_mode(read) == "as_of_run")
    policy = RecordPolicy(
        followed=frozenset(read for read in lookups if table.can_follow(read)) - as_of_run, as_of_run=as_of_run,
        retries=any(rule.retry for rule in table.expectations.values()), many=table.gives_many_rows,
        batch_bytes=table.batch_bytes,
        stored=StoredRows(table, f"sluicegate run {pipeline.name} --full-refresh {name}"),
        any_case=_case_insensitive_tables(pipeline, lake),
    )  # fmt: skip
    return Flow(
        "silver", name, address[table.stream], lake.table("silver", name),
        streams={flow: address[maker.stream] for flow, maker in table.flows_or_branches.items()},
        inputs={read: address[read] for read in lookups}, side_tables=(lake.quarantine(name), lake.set_aside(name)),
        policy=policy,
    )  # fmt: skip


def _deidentified_flow(name: str, table: SilverTable, source: str, lake: layout.Lake) -> Flow:
    treatments = table.deidentified or {}
    fingerprints = Fingerprints(
        computation=hashlib.sha256(json.dumps(treatments, sort_keys=True).encode()).hexdigest(),
        key=pii_key.fingerprint() if "hmac" in treatments.values() else "",
    )
    policy = CopyPolicy(
        batch_bytes=table.batch_bytes,
        treated=frozenset(column.lower() for column in treatments),
        makes={flow: _certain_columns(maker) for flow, maker in table.flows_or_branches.items()},
    )
    return Flow("silver", name, source, lake.table("silver", name), policy=policy, fingerprints=fingerprints)


def _certain_columns(maker: SilverFlow) -> frozenset[str] | None:
    """Return the lower-case columns that a flow certainly returns; None if only its data shows them."""
    columns = (maker.first_branch and maker.first_branch.outputs) or (maker.query and maker.query.outputs)
    if columns:
        return frozenset(column.lower() for column in columns)
    return None


def _bronze_flow(name: str, table: BronzeTable, lake: layout.Lake) -> Flow:
    if table.format == "delta":
        return Flow("bronze", name, table.path, lake.table("bronze", name), policy=ForeignTablePolicy())
    policy = LedgerPolicy(of_topics=table.kafka is not None)
    return Flow("bronze", name, lake.ledger(name), lake.table("bronze", name), policy=policy)


def _gold_flow(name: str, table: GoldTable, lake: layout.Lake, address: Mapping[str, str], opened: Tables) -> Flow:
    """Return the flow of a gold table, which follows the first table of its query and those joined to it."""
    source, *inputs = table.reads
    last = opened[lake.table("gold", name)].last_own_commit  # the target before its sources, as in ``progress``
    strategy = table.refresh_strategy(_schemas(table, address, opened))
    fingerprint = _gold_fingerprint(table, strategy)
    policy = QueryPolicy(
        followed=_followed_inputs(strategy, inputs), row_deltas=strategy.kind in BY_ROW_DELTAS,
        added=strategy.kind == StrategyKind.STREAM, refresh_strategy=_current_strategy(strategy, fingerprint, last),
    )  # fmt: skip
    return Flow(
        "gold", name, address[source], lake.table("gold", name), inputs={read: address[read] for read in inputs},
        policy=policy, fingerprints=Fingerprints(computation=fingerprint),
    )  # fmt: skip


def _schemas(table: GoldTable, address: Mapping[str, str], opened: Tables) -> dict[str, list[str]] | None:
    """Return the columns of the tables that a query reads; None unless all exist, as names depend on them."""
    schemas: dict[str, list[str]] = {}
    for name in table.reads:
        delta = opened[address[name]].delta
        if delta is None:
            return None
        schemas[name] = [field.name for field in delta.schema().fields if field.name not in columns.ENGINE_COLUMNS]
    return schemas


def _gold_fingerprint(table: GoldTable, strategy: RefreshStrategy) -> str:
    parts = [table.fingerprint, *_strategy_parts(strategy), *table.stream_settings, *table.drop_conditions]
    # A streaming aggregation does not come back to rows that it has: by other rules it is made of all.
    if table.mode and table.rules_fingerprint:
        parts.append(table.rules_fingerprint)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _followed_inputs(strategy: RefreshStrategy, inputs: list[str]) -> frozenset[str]:
    """Return the inputs whose changes identify the affected rows."""
    if strategy.kind == StrategyKind.AFFECTED_KEYS:
        return frozenset(inputs)
    if strategy.kind == StrategyKind.FULL_RECOMPUTE or not strategy.grouped:
        return frozenset()
    return frozenset(strategy.grouped.joins)


def _current_strategy(strategy: RefreshStrategy, fingerprint: str, last: log.Commit | None) -> RefreshStrategy:
    """Return the refresh strategy: that of the last run, found with Spark, else by the query's text.

    For a streaming aggregation the definition decides, and its commits name the mode instead.
    """
    if strategy.kind == StrategyKind.STREAM:
        return strategy
    info = log.info_of(last)
    if info.fingerprint != fingerprint or info.gold.strategy is None:
        return replace(strategy, expected=strategy.kind in BY_ROW_DELTAS)
    # Of keys, the text does not tell which these are.
    if info.gold.strategy == strategy.kind and strategy.kind != StrategyKind.AFFECTED_KEYS:
        return strategy
    kind = cast("StrategyKind", info.gold.strategy)  # or one that only a later version has
    return replace(strategy, kind=kind, why=info.gold.because, cheaper=info.gold.instead)


def _strategy_parts(strategy: RefreshStrategy) -> list[str]:
    """Return the parts of a query and the rules behind them; any difference requires a full refresh."""
    grouped = strategy.grouped
    if grouped is None:
        return [READING]
    calls = [call.sql() for call in grouped.calls]
    outputs = [part for output in grouped.outputs for part in output]
    parts = [READING, strategy.kind, *grouped.groups, str(grouped.keys), *calls, *outputs, grouped.having]
    if grouped.repeats_rows:  # version 0.1.0 counted rows of affected windows twice
        parts.append("sliding windows")
    return parts
