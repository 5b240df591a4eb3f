"""What each of our commits says of itself: facts as JSON in the ``userMetadata`` of its entry in the Delta log.

Every key of this contract is an attribute here, with its type and with its value for a commit that lacks it. Facts are
kept in the order in which they were written, and so are those of other versions of Sluicegate, which are not declared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar, overload

# Key of our facts in the ``userMetadata`` of a commit: other writers have metadata of their own.
METADATA = "sluicegate"

Value = TypeVar("Value")


class Fact(Generic[Value]):
    """A fact of commits: its key, which is the attribute's name unless given, and its value where a commit lacks it."""

    def __init__(self, default: Value, key: str = "") -> None:
        self.default, self.key = default, key

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = self.key or name

    @overload
    def __get__(self, part: None, owner: type) -> Self: ...

    @overload
    def __get__(self, part: CommitFacts, owner: type) -> Value: ...

    def __get__(self, part: CommitFacts | None, owner: type) -> Self | Value:
        if part is None:
            return self
        value: Value | None = part.facts.get(self.key)
        if value is None:
            return self.default
        return value


class CommitStep(StrEnum):
    """Which of a run's commits this is, where a table beside the target has several.

    Attributes:
        ENTER: rows enter a side table of silver.
        LEAVE: rows leave a side table of silver.
        REJECT: a batch is refused, and its rows are kept.
        CLEAR: a refusal is over.
        DISCARD: quarantined records are discarded, or that is undone.
    """

    ENTER = "enter"
    LEAVE = "leave"
    REJECT = "reject"
    CLEAR = "clear"
    DISCARD = "discard"


class BatchMode(StrEnum):
    """How the records of a batch were chosen.

    Attributes:
        INCREMENTAL: the changes after the offset.
        FULL_REFRESH: the whole source.
        INTERVAL: also those of an interval of event times, which a person chose.
        REPLAY: also those that a person chose to replay.
    """

    INCREMENTAL = "incremental"
    FULL_REFRESH = "whole"
    INTERVAL = "interval"
    REPLAY = "replay"


@dataclass(frozen=True, eq=False)
class CommitFacts(Mapping[str, Any]):
    """Facts of a commit by key; those that another version wrote are in it, too.

    Attributes:
        facts: the facts, in their order.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)


@dataclass(frozen=True, eq=False)
class BronzeFacts(CommitFacts):
    """Facts of bronze tables."""

    chunk = Fact[int | None](None)  # ledger batch
    files = Fact(0)  # its files
    bytes = Fact[int | None](None)  # their size
    failed = Fact[Mapping[str, Sequence[Any]]]({})  # by path: why a file could not be read, and whether to retry it
    manifest = Fact[Mapping[str, int]]({})  # records by path, as the files themselves say
    collisions = Fact[Mapping[str, str]]({})  # fields that were rescued, by the column that has another's values
    dialect = Fact("")  # of CSV files
    source = Fact[str | None](None)  # ID of the Delta table that bronze is filled from
    offsets = Fact[Mapping[str, Any]]({})  # of Kafka: by topic and partition, those read


@dataclass(frozen=True, eq=False)
class SilverFacts(CommitFacts):
    """Facts of silver tables and of their side tables."""

    op = Fact[str | None](None)  # ID of the run's commits to the table and its side tables
    enters = Fact[Sequence[str]](())  # side tables that got rows before this commit
    leaves = Fact[Sequence[str]](())  # side tables that lose rows after this commit
    quarantined = Fact[int | None](None)  # records of the batch by disposition, as the next two
    dropped = Fact[int | None](None)
    duplicates = Fact[int | None](None)
    rows = Fact[int | None](None)  # rows of records that may give many
    no_rows = Fact[int | None](None)  # records without a row
    flows = Fact[Mapping[str, Mapping[str, int]]]({})  # the same counts by flow
    definitions = Fact[Mapping[str, str]]({})  # fingerprints of its flows
    mixed = Fact(False)  # whether rows of a former definition are left
    stored = Fact[Mapping[str, Any] | None](None)  # what rows depend on: keys, sequence, expressions


@dataclass(frozen=True, eq=False)
class GoldFacts(CommitFacts):
    """Facts of gold tables and of their aggregate states."""

    strategy = Fact[str | None](None)  # refresh strategy
    because = Fact("")  # reason for it
    instead = Fact("")  # change of the query that would make it cheaper
    of_the_run = Fact("")  # what makes the result depend on the time of the run
    columns = Fact[str | None](None)  # fingerprint of the columns of the tables that it reads
    cost = Fact[Mapping[str, Any]]({})  # choice of the technique: estimates, row counts, start
    changed = Fact[Mapping[str, int]]({})  # rows of the table by kind of change
    all = Fact(False)  # whether all rows were computed
    groups = Fact[int | None](None)  # affected groups
    stream = Fact[Mapping[str, Any] | None](None)  # last batch of a streaming aggregation
    layout = Fact[str | None](None)  # of an aggregate state, as the next two: version of its layout
    types = Fact[Mapping[str, str]]({})  # of its columns
    source = Fact[str | None](None)  # ``txnAppId`` of the flow that it follows


@dataclass(frozen=True, eq=False)
class LedgerFacts(CommitFacts):
    """Facts of ledgers and of the archive's log."""

    folders = Fact[Sequence[str]](())  # landing folders, newest first
    copy = Fact[Mapping[str, Any] | None](None)  # options of COPY INTO
    kafka = Fact[Mapping[str, Any] | None](None)  # IDs of topics, and ends of their partitions
    command = Fact[Mapping[str, Any] | None](None)  # command that entered the batch, with its former batches
    skip_list = Fact[Mapping[str, Any] | None](None, "skipped")  # list that the files of the batch were skipped by
    removals = Fact[Sequence[Mapping[str, Any]]](())  # files that are about to leave landing


@dataclass(frozen=True, eq=False)
class DiscardFacts(CommitFacts):
    """Facts of discarded records."""

    rows = Fact(0)  # records that were discarded, or returned to the quarantine
    discard = Fact[str | None](None)  # ID of the discard
    by = Fact[str | None](None)  # who discarded them
    undone_by = Fact[str | None](None, "taken_back_by")  # who returned them


@dataclass(frozen=True, eq=False)
class CommitInfo(CommitFacts):
    """All that a commit of ours says of itself; what only some kinds of tables have is in its parts."""

    layer = Fact[str | None](None)
    table = Fact[str | None](None)
    mode = Fact[str | None](None)  # a ``BatchMode``
    since = Fact(-1)  # offset before the batch
    until = Fact[int | None](None)  # offset after it
    inputs = Fact[Mapping[str, str]]({})  # by name: table ID and version, ``ID@version``
    source_id = Fact[str | None](None)  # table ID of the source
    streams = Fact[Mapping[str, Mapping[str, Any]] | None](None)  # offsets of several flows
    commits = Fact[Mapping[str, Mapping[str, str | None]]]({})  # identities of the commits that were read
    fingerprint = Fact[str | None](None)  # of the definition, if another one demands a full refresh
    definition = Fact[str | None](None)  # fingerprint of the table's definition
    why = Fact("")  # reason for a full refresh or for reprocessing
    seen = Fact[int | None](None)  # version of the table when the run read it
    numbered = Fact(False)  # whether rows of a record are numbered
    by_flow = Fact(False)  # whether a record's identity includes its flow
    rules = Fact("")  # fingerprint of the rules
    key = Fact[str | None](None)  # fingerprint of the key of pseudonyms
    interval = Fact[Sequence[str]](())  # event times that were reprocessed
    replayed = Fact[Mapping[str, Any]]({})  # records that were replayed
    restores = Fact[Sequence[tuple[int | None, int]]](())  # each: version that was restored, and of the RESTORE
    pipeline = Fact("")
    trigger = Fact("")  # of the stream
    run_id = Fact[str | None](None)
    attempt = Fact[int | None](None, "try")  # of Airflow's task
    step = Fact[str | None](None)  # a ``CommitStep``
    read = Fact[int | None](None)  # rows of the source
    written = Fact[int | None](None)  # rows that were written
    expectations = Fact[Mapping[str, Mapping[str, int]]]({})  # by rule: rows that passed and failed
    warnings = Fact[Sequence[str]](())
    table_rules = Fact[Mapping[str, Any]]({})  # by rule about the whole table: its counts
    rules_read = Fact[Mapping[str, str]]({})  # tables that such rules read, as ``inputs``
    rules_commits = Fact[Mapping[str, str]]({})  # and the identities of their commits
    refused = Fact[Sequence[str]](())  # rules that refused the batch
    new_table = Fact[bool | None](None)  # of a table that begins anew: whether the log begins with this commit

    @classmethod
    def of(cls, facts: Mapping[Fact[Any], Any]) -> CommitInfo:
        """Return the facts of a commit that is to be written, in this order."""
        return cls({fact.key: value for fact, value in facts.items()})

    @classmethod
    def from_user_metadata(cls, user_metadata: str | None) -> CommitInfo | None:
        """Read the ``userMetadata`` of a commit; None if it has no facts of ours."""
        try:
            metadata = json.loads(user_metadata or "null")
        except ValueError:
            return None
        if not isinstance(metadata, dict):
            return None
        facts = metadata.get(METADATA)
        if not isinstance(facts, dict):
            return None
        return cls(facts)

    def user_metadata(self) -> str:
        """Return the ``userMetadata`` of a commit with these facts."""
        return json.dumps({METADATA: dict(self.facts)}, default=str)

    def properties(self) -> dict[str, str] | None:
        """Return what a commit by delta-rs takes as ``custom_metadata``; None without facts."""
        if not self.facts:
            return None
        return {"userMetadata": self.user_metadata()}

    def with_facts(self, facts: Mapping[str, Any]) -> CommitInfo:
        """Return the same with other facts: new ones come last, and others keep their place."""
        return CommitInfo({**self.facts, **facts})

    @property
    def bronze(self) -> BronzeFacts:
        """What only bronze tables have."""
        return BronzeFacts(self.facts)

    @property
    def silver(self) -> SilverFacts:
        """What only silver tables and their side tables have."""
        return SilverFacts(self.facts)

    @property
    def gold(self) -> GoldFacts:
        """What only gold tables and their states have."""
        return GoldFacts(self.facts)

    @property
    def ledger(self) -> LedgerFacts:
        """What only ledgers and the archive's log have."""
        return LedgerFacts(self.facts)
