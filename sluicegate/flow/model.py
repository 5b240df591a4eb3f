"""Flow (a table and its source), and its progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from sluicegate.flow.policies import Policy
from sluicegate.lake.table_description import Description

if TYPE_CHECKING:
    from sluicegate.flow.definitions.definition_changes import StoredRows
    from sluicegate.spark_sql.refresh.strategy import RefreshStrategy


# Trigger of a stream that takes in what is available, and ends.
AVAILABLE_NOW = "availableNow"

# Reasons why a query reads what a table takes in.
ON_CONNECT = "a Spark Connect server cannot run the function of a stream in this job"
TOGETHER = "its flows are committed together, and a stream has one source"


def query_trigger(reason: str) -> str:
    """Return the trigger of a table whose source was read by a query.

    Args:
        reason: why there is no stream.
    """
    return f"query: {reason}"


@dataclass(frozen=True)
class Fingerprints:
    """Fingerprints of what determines a table's rows; a run acts on any that differs from the last commit's.

    Attributes:
        computation: of the query or function; the target gets a full refresh when it differs. Empty: not compared.
        rules: of the rules that rows must meet before a commit. When it differs, all rows are checked against
            them, though none has changed. Empty: there are none, or only new rows are checked.
        key: of the key of pseudonyms; the target gets a full refresh when it differs. Empty: there is
            none, or this process does not have the key.
    """

    computation: str = ""
    rules: str = ""
    key: str = ""


@dataclass(frozen=True)
class Flow:
    """Table with the table that it follows.

    Attributes:
        layer: bronze, silver or gold.
        table: name of the table it fills.
        source: URI of the Delta table whose changes it follows; the first of several.
        target: URI of the table it fills.
        streams: if several flows of the definition fill the target, the table that each of them follows,
            by its name. Otherwise empty.
        inputs: the other tables it reads, name to URI; when one of them changes, the target gets a full refresh.
        references: the tables that its rules read, name to URI.
        side_tables: URIs of the tables that are written together with the target, before or after it.
        policy: actions on changes of these tables, by the kind of the target.
        fingerprints: fingerprints of what determines its rows.
        private: whether values may be personal data, so that no message can quote one.
        description: comments and properties of the target.
    """

    layer: str
    table: str
    source: str
    target: str
    streams: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    side_tables: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    private: bool = False
    description: Description = field(default_factory=Description)

    def why_without_stream(self, *, remote: bool) -> str:
        """Return why a query reads the source; empty if an availableNow stream does.

        Args:
            remote: whether Spark is a Spark Connect server.
        """
        if remote:
            return ON_CONNECT
        if self.streams:
            return TOGETHER
        return ""

    @property
    def stream_name(self) -> str:
        """Name of the stream in Spark's UI (*Structured Streaming*) and event log."""
        return f"{self.layer} {self.table}"

    @property
    def sources(self) -> tuple[str, ...]:
        """URIs of all source tables."""
        return tuple(dict.fromkeys(self.streams.values())) or (self.source,)

    # --- what the layers ask of the policy and the fingerprints ------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Fingerprint of what computes the table."""
        return self.fingerprints.computation

    @property
    def rules(self) -> str:
        """Fingerprint of the rules that its rows must meet."""
        return self.fingerprints.rules

    @property
    def key(self) -> str:
        """Fingerprint of the key of pseudonyms."""
        return self.fingerprints.key

    @property
    def has_foreign_source(self) -> bool:
        """Whether another program writes the source."""
        return self.policy.foreign

    @property
    def as_of_run(self) -> frozenset[str]:
        """Inputs whose changes affect only later records."""
        return self.policy.as_of_run

    @property
    def stored_rows(self) -> StoredRows | None:
        """Definition of the stored rows, if the target is a silver table."""
        return self.policy.stored

    @property
    def refresh_strategy(self) -> RefreshStrategy | None:
        """Refresh strategy of the target, if it is a gold table."""
        return self.policy.refresh_strategy


@dataclass(frozen=True)
class StreamProgress:
    """Offset of one of several flows, and what to do about it.

    Attributes:
        source_id: table ID of its source.
        since: source version that the target has processed; -1 before the first.
        until: present version of the source.
        known: whether the target may already have records of the flow.
        restarts: whether the whole source is read, to replace the flow's records.
        revised: whether the source changed or lost rows that were already processed.
        why: reason of a restart or revision.
    """

    source_id: str
    since: int = -1
    until: int = -1
    known: bool = False
    restarts: bool = False
    revised: bool = False
    why: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the source are processed, instead of changes."""
        return self.restarts or not self.known

    @property
    def has_work(self) -> bool:
        """Whether anything waits."""
        return self.is_whole or self.since < self.until


class ProgressKind(StrEnum):
    """What the next run of a table does.

    Attributes:
        IDLE: nothing: the table has taken in all that its inputs have.
        BLOCKED: nothing: a table that it needs does not exist yet.
        INCREMENTAL: take the changes after the offset up to the source's present version.
        FULL_REFRESH: make the table from its whole source, as of its present version.
    """

    IDLE = "idle"
    BLOCKED = "blocked"
    INCREMENTAL = "incremental"
    FULL_REFRESH = "whole"


@dataclass(frozen=True)
class Progress:
    """Offset of a flow, and what to do.

    Where several flows of the definition fill a table, each has an offset of its own in ``streams``, and ``since`` and
    ``until`` count the batches that the target has taken in of them.

    Attributes:
        kind: what the next run does.
        since: the offset: source version that the target has processed; -1 before the first.
        until: present version of the source.
        versions: present version of each other input; the batch reads exactly these.
        stamps: table ID and version of each other input, as recorded.
        app_id: ``txnAppId`` of the offset; it has the source's table id in it, so a source that was deleted and
            created again is not taken for the former one, and the restore epoch (see lake/offsets.py).
        seen: version of the target when its offsets were read; -1 before the first.
        restores: RESTOREs of the target, as its commits record them.
        why: reason for a full refresh, for reprocessing, or for waiting.
        revised: whether the source changed or lost rows that were already processed.
        changed: the followed inputs that changed, each with the version read last.
        retry: whether an input changed because of which quarantined records are reprocessed.
        repair: whether a run was stopped between two of its commits, so that records may be in two tables.
        of_many: whether source rows are numbered within their records, and are the records of this table.
        of_flows: whether a record's identity includes its flow, as several flows fill the target or its source.
        streams: progress of each flow whose source exists, by name; empty if there is only one.
        removed: flows with records in the target that the definition no longer has.
        of_the_run: whether nothing changed, and a full refresh is due only because the result depends on the time.
        command: the command for a full refresh that only a person may start; empty if a run does it.
    """

    kind: ProgressKind
    since: int = -1
    until: int = -1
    versions: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, str] = field(default_factory=dict)
    app_id: str = ""
    seen: int = -1
    restores: Sequence[Sequence[int | None]] = ()
    why: str = ""
    revised: bool = False
    changed: Mapping[str, int] = field(default_factory=dict)
    retry: bool = False
    repair: bool = False
    of_many: bool = False
    of_flows: bool = False
    streams: Mapping[str, StreamProgress] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    of_the_run: bool = False
    command: str = ""

    @property
    def reprocesses(self) -> bool:
        """Whether records that were processed before may be reprocessed."""
        return self.revised or bool(self.changed) or self.retry or self.repair or bool(self.replaced_flows)

    @property
    def replaced_flows(self) -> tuple[str, ...]:
        """Flows whose records in the target are removed, or replaced by what their sources have now."""
        return (*self.removed, *(name for name, stream in self.streams.items() if stream.restarts))

    def unprocessed_versions(self, flow: Flow) -> dict[str, tuple[int, int]]:
        """Return the unprocessed versions of tables by URI, after the first and up to the second."""
        spans = {flow.inputs[name]: (read, self.versions[name]) for name, read in self.changed.items()}
        sources = [(flow.source, self.since, self.until)]
        if flow.streams:
            sources = [(flow.streams[name], stream.since, stream.until) for name, stream in self.streams.items()]
        for uri, since, until in sources:
            if since < until:
                first = since
                if uri in spans:
                    first = min(since, spans[uri][0])
                spans[uri] = (first, until)
        return spans

    @property
    def has_work(self) -> bool:
        """Whether a run would do anything."""
        return self.kind in (ProgressKind.INCREMENTAL, ProgressKind.FULL_REFRESH)

    @property
    def has_waiting_changes(self) -> bool:
        """Whether a change waits; a full refresh due only to the time of the run does not count."""
        return self.has_work and not self.of_the_run

    def to_full_refresh(self) -> Progress:
        """Return this progress with a full refresh that a person requested."""
        reason = "a full refresh was requested"
        progress = replace(self, command="")
        if self.kind in (ProgressKind.IDLE, ProgressKind.INCREMENTAL):
            return replace(progress, kind=ProgressKind.FULL_REFRESH, why=reason)
        return progress


def name_of(uri: str) -> str:
    return uri.rstrip("/").rsplit("/", 1)[-1]
