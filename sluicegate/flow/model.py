"""What is to be filled from what, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sluicegate.sql.refresh.strategy import RefreshStrategy


@dataclass(frozen=True)
class Flow:
    """One way into one table.

    Attributes:
        layer: bronze, silver or gold.
        table: name of the table it fills.
        source: URI of the Delta table whose changes it follows.
        target: URI of the table it fills.
        inputs: the other tables it reads, name to URI; when one of them changes, the target is made again.
        followed: the inputs of whose changes it is known which records they touch: only these are applied again.
        as_of_run: the inputs whose changes matter to later records only, and to quarantined ones if ``retries``.
        retries: whether the target judges quarantined records again when one of these changes.
        side_tables: URIs of the tables that are written together with the target, before or after it.
        by_record: whether the target knows by identity which records its rows were made of.
        fingerprint: of what computes the table; the target is made again when it differs. Empty: not looked at.
        key: fingerprint of the key that its pseudonyms are made with; the target is made again when it differs.
            Empty: it has none, or the key is not known to this process.
        private: whether values may be personal data, so that no message can quote one.
        rebuildable: whether the target can be made again from the source (bronze cannot: files may be gone).
        row_deltas: whether the target takes in what rows were as well as what they are now: any change of the source is
            then one that it can follow.
        added: whether it can take in new rows only; after any other change of the source the target is made again.
        refresh_strategy: how the target is kept up to date, if it is a gold table.
        foreign: whether the source is a table of other programs': it may have no change data feed, and change in any
            way (see bronze/delta_source.py).
    """

    layer: str
    table: str
    source: str
    target: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    followed: frozenset[str] = frozenset()
    as_of_run: frozenset[str] = frozenset()
    retries: bool = False
    side_tables: tuple[str, ...] = ()
    by_record: bool = False
    fingerprint: str = ""
    key: str = ""
    private: bool = False
    rebuildable: bool = True
    row_deltas: bool = False
    added: bool = False
    foreign: bool = False
    refresh_strategy: RefreshStrategy | None = None


@dataclass(frozen=True)
class Progress:
    """How far a flow has come, and what is to be done.

    Attributes:
        kind: ``idle``; ``blocked``: a table that it needs does not exist yet; ``incremental``: take the changes after
            ``since`` up to ``until``; ``whole``: make the target again from the source as of ``until``.
        since: the mark: version of the source that the target has taken in; -1 before the first.
        until: version of the source now.
        versions: version of each other input now; the batch reads exactly these.
        stamps: table id and version of each other input, as they are recorded.
        app_id: under which the mark is kept; it has the source's table id in it, so a source that was deleted and
            made again is not mistaken for the one that the mark speaks of, and the epoch (see lake/offsets.py).
        seen: version of the target when its marks were read; -1 before the first.
        restores: each RESTORE of the target, as its commits are to tell them.
        why: reason of a rebuild, of applying records again, or of waiting.
        revised: whether the source changed or lost rows that were applied already.
        changed: the followed inputs that changed, each with the version that was read last.
        retry: whether an input changed for which quarantined records are to be judged again.
        repair: whether a run was stopped between two of its commits, so that records may stand in two places.
        of_the_run: whether nothing changed, and a run makes the target again only since it depends on when that is.
    """

    kind: Literal["idle", "blocked", "incremental", "whole"]
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
    of_the_run: bool = False

    @property
    def reprocesses(self) -> bool:
        """Whether records may have to be applied that were applied before."""
        return self.revised or bool(self.changed) or self.retry or self.repair

    @property
    def work(self) -> bool:
        """Whether a run would do anything."""
        return self.kind in ("incremental", "whole")

    @property
    def waits(self) -> bool:
        """Whether something came or changed that it has not taken in: a run that began only for time begins forever."""
        return self.work and not self.of_the_run

    def full_refresh(self) -> Progress:
        """The same where a person asked for the target to be made again whole."""
        why = "a full refresh was asked for"
        return replace(self, kind="whole", why=why) if self.kind in ("idle", "incremental") else self


def name_of(uri: str) -> str:
    """The last part of a table's address."""
    return uri.rstrip("/").rsplit("/", 1)[-1]
