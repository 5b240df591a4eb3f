"""What a run would do, found out from the ledger and the offsets alone: no Spark, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from sluicegate.console import files as files_
from sluicegate.console import human_bytes
from sluicegate.flow.flows import all_opened, flows
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.progress import progress
from sluicegate.lake import layout
from sluicegate.landing import discovery, file_status

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.settings import Settings


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


@dataclass(frozen=True)
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
        first = next((index for index, layer in enumerate(layout.LAYERS) if any(map(has, self._of(layer)))), None)
        return [] if first is None else [layer for layer in layout.LAYERS[first:] if self._of(layer)]

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


def _left(failed: Mapping[str, bool], new: pa.Table) -> int:
    """How many failed files the next run does not try again: they are as they were, or not there."""
    retried = set(new["path"].to_pylist()) if failed else set()
    return len(failed.keys() - retried)


def pending(pipeline: Pipeline, settings: Settings) -> Pending:
    """Looks at landing, ledger and marks.

    Raises:
        LandingMissing: a landing folder, or the Delta table that a bronze table reads, does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    at = layout.Lake(settings.lake, pipeline.name)
    found, opened = Pending(), all_opened(pipeline, at)
    for layer in layout.LAYERS:
        for name, flow in flows(pipeline, at, layer, opened).items():
            now = progress(flow, opened)
            if flow.foreign:
                found.tables.append(TableWork(flow, now, versions=now.until - now.since if now.work else 0))
            elif layer == "bronze":
                table = pipeline.bronze[name]
                seen = discovery.discover(name, table, at, opened=opened)
                counts = (seen.new.num_rows, seen.bytes, seen.settling.num_rows, seen.changed.num_rows)
                failed = _left(file_status.failed(at, name, table.fingerprint, opened), seen.new)
                behind = file_status.behind(at, name, opened)
                found.tables.append(TableWork(flow, now, *counts, len(seen.refused), failed, behind))
            else:
                found.tables.append(TableWork(flow, now))
    return found
