"""What a run would do, found out from the ledger and the marks alone: no Spark, nothing written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sluicegate.flow.progress import Flow, Progress, progress
from sluicegate.flow.report import files as files_
from sluicegate.flow.report import human_bytes
from sluicegate.lake import tables as lake_tables
from sluicegate.landing import discovery, file_status
from sluicegate.silver import pseudonyms
from sluicegate.sql.refresh.strategy import READING

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, GoldTable, Pipeline, SilverTable
    from sluicegate.settings import Settings
    from sluicegate.sql.refresh.strategy import Upkeep


@dataclass(frozen=True)
class TableWork:
    """What waits for one table.

    Attributes:
        flow: its flow.
        progress: the flow's marks.
        files: files that landed and are not in the ledger.
        bytes: their size.
        settling: files too young to be read.
        changed: files that changed after they were read.
        refused: files and folders in landing that are passed over: links that lead out of it, and what is unreadable.
        failed: files whose last reading failed, and that the next run does not try again.
        behind: whether it is not on record yet what became of files that a killed run read.
        versions: versions that its source has and it has not taken in, where that is a Delta table.
    """

    flow: Flow
    progress: Progress
    files: int = 0
    bytes: int = 0
    settling: int = 0
    changed: int = 0
    refused: int = 0
    failed: int = 0
    behind: bool = False
    versions: int = 0

    @property
    def layer(self) -> str:
        """Bronze, silver or gold."""
        return self.flow.layer

    @property
    def table(self) -> str:
        """Its name."""
        return self.flow.table

    @property
    def work(self) -> bool:
        """Whether a run would do anything for this table."""
        return bool(self.files) or self.progress.work or self.behind

    @property
    def waits(self) -> bool:
        """Whether something came or changed that it has not taken in."""
        return bool(self.files) or self.progress.waits or self.behind


@dataclass
class Pending:
    """What waits for a pipeline."""

    tables: list[TableWork] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        """Whether nothing came or changed that is not in every table."""
        return not self.late

    @property
    def layers(self) -> list[str]:
        """The layers that a run would have to start; work in one layer makes work in the next."""
        return self._from(lambda table: table.work)

    @property
    def late(self) -> list[str]:
        """Those of them that something waits for, which is reason enough to begin a run."""
        return self._from(lambda table: table.waits)

    def _from(self, has: Callable[[TableWork], bool]) -> list[str]:
        first = next((index for index, layer in enumerate(lake_tables.LAYERS) if any(map(has, self._of(layer)))), None)
        return [] if first is None else [layer for layer in lake_tables.LAYERS[first:] if self._of(layer)]

    def only(self, wanted: Callable[[str], bool]) -> Pending:
        """What waits for some tables, by their names."""
        return Pending([table for table in self.tables if wanted(table.table)])

    def _of(self, layer: str) -> list[TableWork]:
        return [table for table in self.tables if table.layer == layer]

    @property
    def files(self) -> int:
        """Files that wait to be read."""
        return sum(table.files for table in self.tables)

    @property
    def bytes(self) -> int:
        """Bytes of these files."""
        return sum(table.bytes for table in self.tables)

    @property
    def settling(self) -> int:
        """Files that may still be being written."""
        return sum(table.settling for table in self.tables)

    @property
    def changed(self) -> int:
        """Files that changed after they were read."""
        return sum(table.changed for table in self.tables)

    def sentence(self) -> str:
        """What waits, in a sentence."""
        parts = [f"{files_(t.files)} of {human_bytes(t.bytes)} for {t.table}" for t in self.tables if t.files]
        parts += [f"{versions_(t.versions)} of a Delta table for {t.table}" for t in self.tables if t.versions]
        behind = [t.table for t in self.tables if t.waits and not (t.files or t.versions)]
        if behind:
            parts.append(f"{', '.join(behind)} {'is' if len(behind) == 1 else 'are'} behind")
        if self.nothing:  # else what is read now may well be what they wait for
            parts += [f"{t.table} waits: {t.progress.why}" for t in self.tables if t.progress.kind == "blocked"]
        if self.settling:
            parts.append(f"{files_(self.settling)} still settling")
        failed = sum(table.failed for table in self.tables)
        text = "waiting: " + "; ".join(parts) if parts else "nothing new: every landed file is in every table"
        but = [f"{files_(self.changed)} changed after being read"] if self.changed else []
        but += [f"{files_(failed)} could not be read"] if failed else []
        refused = sum(table.refused for table in self.tables)
        but += [f"{refused:,} in landing {'was' if refused == 1 else 'were'} passed over"] if refused else []
        return f"{text}, but {' and '.join(but)} (see `sluicegate files`)" if but else text


def versions_(count: int) -> str:
    """A number of versions in words."""
    return "1 version" if count == 1 else f"{count:,} versions"


def flows(pipeline: Pipeline, at: lake_tables.Lake, layer: str) -> dict[str, Flow]:
    """The flows of a layer by table, in the order in which they run."""
    private = bool(pipeline.pii)
    return {name: replace(flow, private=private) for name, flow in _flows(pipeline, at, layer).items()}


def needs(ways: Mapping[str, Flow]) -> dict[str, list[str]]:
    """For each of some flows, those of them that it reads the tables of."""
    of = {way.target: name for name, way in ways.items()}
    return {name: [of[uri] for uri in (way.source, *way.inputs.values()) if uri in of] for name, way in ways.items()}


def _flows(pipeline: Pipeline, at: lake_tables.Lake, layer: str) -> dict[str, Flow]:
    address = {name: at.table(of, name) for of in lake_tables.LAYERS for name in getattr(pipeline, of)}
    if layer == "bronze":
        return {name: _bronze_flow(name, table, at) for name, table in pipeline.bronze.items()}
    if layer == "gold":
        return {name: _gold_flow(name, table, at, address) for name, table in pipeline.gold.items()}
    found = {}
    for name in pipeline.silver_order():
        found[name] = _silver_flow(name, pipeline.silver[name], at, address)
        for copy in (copy for copy, of in pipeline.deidentified_tables.items() if of == name):
            found[copy] = _deidentified_flow(copy, pipeline.silver[name], address[name], at)
    return found


def _silver_flow(name: str, table: SilverTable, at: lake_tables.Lake, address: Mapping[str, str]) -> Flow:
    others = [read for read in table.reads if read != table.stream]
    as_of_run = frozenset(read for read in others if table.lookup_mode(read) == "as_of_run")
    return Flow(
        "silver", name, address[table.stream], at.table("silver", name),
        inputs={read: address[read] for read in others},
        followed=frozenset(table.query.ties if table.query else ()) - as_of_run,
        as_of_run=as_of_run,
        retries=any(rule.retry for rule in table.expectations.values()),
        beside=(at.quarantine(name), at.set_aside(name)),
        by_record=True,
    )  # fmt: skip


def _deidentified_flow(name: str, table: SilverTable, source: str, at: lake_tables.Lake) -> Flow:
    treatments = table.deidentified or {}
    return Flow(
        "silver", name, source, at.table("silver", name),
        by_record=True,
        fingerprint=hashlib.sha256(json.dumps(treatments, sort_keys=True).encode()).hexdigest(),
        key=pseudonyms.fingerprint() if "hmac" in treatments.values() else "",
    )  # fmt: skip


def _bronze_flow(name: str, table: BronzeTable, at: lake_tables.Lake) -> Flow:
    if not table.of_files:
        return Flow("bronze", name, table.path, at.table("bronze", name), foreign=True)
    return Flow("bronze", name, at.ledger(name), at.table("bronze", name), rebuildable=False)


def _gold_flow(name: str, table: GoldTable, at: lake_tables.Lake, address: Mapping[str, str]) -> Flow:
    """It follows the first table that it reads, and those that are joined to its rows."""
    source, *others = table.reads
    # Their columns count if all tables are there: what a name means depends on them.
    known = {name: lake_tables.delta_table(address[name]) for name in table.reads}
    schemas = {name: [f.name for f in one.schema().fields if f.name not in lake_tables.ENGINE_COLUMNS]
               for name, one in known.items() if one is not None}  # fmt: skip
    found = table.upkeep(schemas if len(schemas) == len(known) else None)
    asked = [table.fingerprint, *_parts(found), *table.of_stream]
    flow = Flow(
        "gold", name, address[source], at.table("gold", name),
        inputs={read: address[read] for read in others},
        followed=frozenset(found.grouped.joins if found.grouped and found.way != "whole" else ()),
        fingerprint=hashlib.sha256("\0".join(asked).encode()).hexdigest(),
        signed=found.way in ("partial", "groups"),
        added=found.way == "stream",
        upkeep=found,
    )  # fmt: skip
    return replace(flow, upkeep=_decided(flow, found))


def _decided(flow: Flow, found: Upkeep) -> Upkeep:
    """How the table is kept up to date: as its last run found it with Spark's help, else as the query's text tells."""
    last = lake_tables.last_commit_of_ours(lake_tables.delta_table(flow.target))
    said = last.ours if last is not None and last.ours is not None else {}
    if said.get("fingerprint") != flow.fingerprint or "strategy" not in said:
        return replace(found, expected=found.grouped is not None and found.way in ("partial", "groups"))
    if said["strategy"] == found.way:
        return found
    return replace(found, way=said["strategy"], why=str(said.get("because", "")), cheaper="")


def _parts(found: Upkeep) -> list[str]:
    """What a query is taken apart into, and by which rules: all of it is made again when any of this is other."""
    grouped = found.grouped
    if grouped is None:
        return [READING]
    calls = [call.sql() for call in grouped.calls]
    outputs = [part for output in grouped.outputs for part in output]
    return [READING, found.way, *grouped.groups, str(grouped.keys), *calls, *outputs, grouped.having]


def _left(failed: Mapping[str, bool], new: pa.Table) -> int:
    """How many failed files the next run does not try again: they are as they were, or not there."""
    again = set(new["path"].to_pylist()) if failed else set()
    return len(failed.keys() - again)


def pending(pipeline: Pipeline, settings: Settings) -> Pending:
    """Looks at landing, ledger and marks.

    Raises:
        LandingMissing: a landing folder, or the Delta table that a bronze table reads, does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    at = lake_tables.Lake(settings.lake, pipeline.name)
    found = Pending()
    for layer in lake_tables.LAYERS:
        for name, flow in flows(pipeline, at, layer).items():
            now = progress(flow)
            if flow.foreign:
                found.tables.append(TableWork(flow, now, versions=now.until - now.since if now.work else 0))
            elif layer == "bronze":
                table = pipeline.bronze[name]
                seen = discovery.discover(name, table, at)
                counts = (seen.new.num_rows, seen.bytes, seen.settling.num_rows, seen.changed.num_rows)
                failed = _left(file_status.failed(at, name, table.fingerprint), seen.new)
                found.tables.append(
                    TableWork(flow, now, *counts, len(seen.refused), failed, file_status.behind(at, name))
                )
            else:
                found.tables.append(TableWork(flow, now))
    return found
