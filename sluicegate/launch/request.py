"""Request of a run: incremental, interval, full refresh, replay or discard; which tables; how many files.

A job gets it by its arguments, Airflow from the kind of DAG run and its form; both are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sluicegate.console import files
from sluicegate.definition.tables.table import DEIDENTIFIED
from sluicegate.errors import UserError
from sluicegate.flow.selection import Interval, Replay
from sluicegate.lake import layout, offsets
from sluicegate.lake import tables as lake_tables
from sluicegate.landing.file_states import LedgerAction
from sluicegate.launch.run_mode import MODES, RunMode

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, Layer, Pipeline
    from sluicegate.landing import discovery
    from sluicegate.launch.discard import Discard


@dataclass(frozen=True)
class Request:
    """Request of a run.

    Attributes:
        mode: what the run is to do.
        interval: the interval, in that mode.
        tables: only these tables; empty for all.
        max_files: maximum number of files for each bronze table, oldest first; None for all.
        replay: records to replay, in that mode.
        discard: records to discard, or discards to undo, in that mode.
    """

    mode: RunMode = RunMode.INCREMENTAL
    interval: Interval | None = None
    tables: tuple[str, ...] = ()
    max_files: int | None = None
    replay: Replay | None = None
    discard: Discard | None = None

    @classmethod
    def from_discard(cls, pipeline: Pipeline, discard: Discard) -> Request:
        """Return the request of a discard, checked against the definition.

        Raises:
            PipelineMissing: the pipeline has no such table.
            UserError: the table is not silver, or the note is missing or too long.
        """
        discard.demand(pipeline)
        return cls(RunMode.DISCARD, discard=discard)

    @classmethod
    def from_replay(cls, pipeline: Pipeline, replay: Replay) -> Request:
        """Return the request of a replay, checked against the definition.

        Raises:
            PipelineMissing: the pipeline has no such table.
            UserError: the table is not silver, or lacks the rule.
        """
        replay.demand(pipeline)
        return cls(RunMode.REPLAY, replay=replay)

    @classmethod
    def from_arguments(
        cls,
        pipeline: Pipeline,
        mode: str = RunMode.INCREMENTAL,
        since: str | None = None,
        until: str | None = None,
        tables: Sequence[str] = (),
        max_files: int | None = None,
    ) -> Request:
        """Return the request, checked against the definition.

        Args:
            pipeline: the definition.
            mode: see ``MODES``.
            since: start of the interval by event time, ISO 8601; without a zone it is UTC.
            until: end of the interval, exclusive.
            tables: only these tables.
            max_files: maximum number of files for each bronze table.

        Raises:
            PipelineMissing: the pipeline has no such table.
            UserError: an end of the interval is missing or not a time, no table has an event time, or options exclude
                each other.
        """
        for name in tables:
            pipeline.table(name)
        if max_files is not None and max_files < 1:
            raise UserError(f"invalid limit of {max_files} files", hint="use 1 or more, or omit it for all files")
        match mode:
            case RunMode.INCREMENTAL if not (since or until):
                return cls(RunMode.INCREMENTAL, None, tuple(tables), max_files)
            case RunMode.INTERVAL if since and until:
                request = cls(RunMode.INTERVAL, Interval.parse(since, until), tuple(tables), max_files)
                request._demand_event_time(pipeline)
                return request
            case RunMode.FULL_REFRESH:
                return cls._full_refresh(since or until, tuple(tables), max_files)
            case RunMode.INCREMENTAL | RunMode.INTERVAL:
                raise UserError(
                    "an interval needs both ends", hint="set from and to, for example 2024-03-01 and 2024-03-02"
                )
        raise UserError(f"unknown mode {mode}", hint=f"modes: {', '.join(MODES)}")

    @classmethod
    def _full_refresh(cls, end: str | None, tables: tuple[str, ...], max_files: int | None) -> Request:
        if end:
            raise UserError("a full refresh reads the whole source of each table, so it takes no interval",
                            hint="omit --from and --to, or use the mode interval")  # fmt: skip
        if max_files is not None:
            raise UserError("a full refresh reads all files, so their number cannot be limited",
                            hint="omit --max-files")  # fmt: skip
        return cls(RunMode.FULL_REFRESH, None, tables)

    def _demand_event_time(self, pipeline: Pipeline) -> None:
        if any(self.includes(name) and table.event_time for name, table in pipeline.silver.items()):
            return
        tables = ", ".join(self.tables) or pipeline.name
        raise UserError(
            f"no silver table of {tables} has an event_time, which an interval requires",
            hint="set event_time in the definition, or use `sluicegate replay` or a full refresh",
        )

    def includes(self, table: str) -> bool:
        """Return whether the request includes a table; a de-identified table belongs to its source table."""
        return not self.tables or table in self.tables or table.removesuffix(DEIDENTIFIED) in self.tables

    def names(self, pipeline: Pipeline, layer: Layer) -> list[str]:
        """Return the tables of a layer that the request includes."""
        return [name for name in pipeline.names(layer) if self.includes(name)]

    def layer_request(self, layer: str) -> Request:
        """Return a layer's part of the request. Only silver takes an interval: gold follows silver's changes."""
        reprocesses = self.mode == RunMode.INTERVAL and layer == "silver"
        if self.mode == RunMode.INTERVAL and not reprocesses:
            mode: RunMode = RunMode.INCREMENTAL
        else:
            mode = self.mode
        files = None
        if layer == "bronze":
            files = self.max_files
        return replace(self, mode=mode, interval=self.interval if reprocesses else None, max_files=files)

    def arguments(self, layer: str) -> list[str]:
        """Return the arguments for the job of a layer, or of the replay in its place; for the job ``run`` all of it."""
        if self.replays(layer):
            if self.replay:
                return [*self.replay.arguments(), *(["--follow"] if layer == "run" else [])]
            return []
        if layer == "run":
            return self._arguments()
        return self.layer_request(layer)._arguments()

    def _arguments(self) -> list[str]:
        options = []
        if self.mode == RunMode.FULL_REFRESH:
            options.append("--mode=full-refresh")
        if self.interval is not None:
            options += self.interval.arguments()
        if self.tables:
            options.append(f"--tables={','.join(self.tables)}")
        if self.max_files is not None:
            options.append(f"--max-files={self.max_files}")
        return options

    def replays(self, layer: str) -> bool:
        """Return whether ``spark_jobs/tools/replay.py`` replaces a layer's job, or the job ``run``."""
        return self.replay is not None and layer in ("silver", "run")

    def reprocesses(self, layers: Sequence[str]) -> bool:
        """Return whether these layers have work even if nothing is new.

        With an interval, silver has. Gold then sees by its own offsets whether silver changed.
        """
        if self.mode == RunMode.FULL_REFRESH:
            return True
        return self.mode in (RunMode.INTERVAL, RunMode.REPLAY) and "silver" in layers

    @property
    def finder(self) -> discovery.FileFinder | None:
        """File finder for bronze; None for plain discovery."""
        if self.mode == RunMode.FULL_REFRESH:
            return _reset_all
        if self.max_files is None:
            return None
        return partial(_discover_oldest, self.max_files)

    def __str__(self) -> str:
        if self.discard is not None:
            return str(self.discard)
        if self.replay is not None:
            broke = ""
            if self.replay.rules:
                broke = f" that broke {', '.join(self.replay.rules)}"
            return f"replays the quarantined records of {self.replay.table}{broke}, and gold follows"
        parts = {
            RunMode.INCREMENTAL: "ingests new data",
            RunMode.INTERVAL: f"ingests new data and reprocesses {self.interval} in silver, and gold follows",
            RunMode.FULL_REFRESH: "does a full refresh of the tables from all files and records",
        }
        text = parts[self.mode]
        if self.tables:
            text += f"; only {', '.join(self.tables)}"
        if self.max_files is not None:
            text += f"; at most {files(self.max_files)} for each bronze table"
        return text


def _discover_oldest(limit: int, name: str, table: BronzeTable, lake: layout.Lake) -> discovery.Discovery:
    """Limit the run to the oldest landed files; a retry counts files that the first attempt ingested."""
    from sluicegate.landing import discovery

    discovered = discovery.discover(name, table, lake)
    return replace(discovered, new=discovered.new.slice(0, max(0, limit - _count_entered(name, lake))))


def _count_entered(name: str, lake: layout.Lake) -> int:
    """Return the number of files in a table's ledger above its offset."""
    import pyarrow.compute as pc

    ledger, bronze = lake_tables.delta_table(lake.ledger(name)), lake_tables.delta_table(lake.table("bronze", name))
    if ledger is None:
        return 0
    app_id = offsets.app_id("bronze", name, ledger)
    offset = 0
    if bronze is not None:
        offset = offsets.committed_offset(bronze, app_id, offsets.restore_history(bronze)).offset or 0
    waits = (pc.field("chunk") > offset) & ~pc.field("action").isin([LedgerAction.SKIP, LedgerAction.MOVED])
    return int(lake_tables.dataset(ledger).to_table(["chunk", "action"]).filter(waits).num_rows)


def _reset_all(name: str, table: BronzeTable, lake: layout.Lake) -> discovery.Discovery:
    """Discover all files for a full refresh; rows of files that are gone stay."""
    from sluicegate.landing import discovery
    from sluicegate.landing.chosen.reread import Reset

    if lake_tables.delta_table(lake.ledger(name)) is None:
        return discovery.discover(name, table, lake)
    return Reset().discover(name, table, lake)
