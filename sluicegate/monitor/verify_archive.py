"""Verification of the archive of ``cleanSource``: files in it that no ledger knows, whose rows may be in no table."""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.console import files
from sluicegate.definition import Pipeline
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import layout, tables
from sluicegate.landing import readers
from sluicegate.landing.moves import archive, archived_files


def findings(pipeline: Pipeline, name: str, lake: layout.Lake) -> Iterator[Finding]:
    """Yield the files in the archive of a bronze table that no table knows that moves its files there.

    Args:
        pipeline: the definition.
        name: the bronze table.
        lake: the lake.
    """
    yield from _unlisted_files(name, lake)
    destination = pipeline.bronze[name].cleanSourceMoveDestination
    if destination is None:
        return
    try:
        unknown = archived_files.unknown_shared_files(pipeline, name, lake)
    except OSError as error:
        yield Finding(FindingKind.UNPROVED, name, f"its archive {destination} cannot be listed: {error}")
        return
    if not unknown.num_rows:
        return
    sentence = f"not in any ledger: {files(unknown.num_rows)} of its archive, such as {unknown['path'][0].as_py()}"
    if sharing := readers.readers_sharing_archive(pipeline, name):
        of = ", ".join(map(str, sharing))
        text = f"{sentence}; {of} shares this archive, so they may belong to that table"
        yield Finding(FindingKind.UNPROVED, name, text)
        return
    reload = f"sluicegate reload {lake.pipeline} {name} --archived"
    yield Finding(FindingKind.WRONG, name, f"{sentence}: their rows may be missing from the table", reload)


def _unlisted_files(name: str, lake: layout.Lake) -> Iterator[Finding]:
    """Yield the files that are on record as moved or deleted, and that the ledger does not have as they were."""
    ledger = tables.delta_table(lake.ledger(name))
    if ledger is None:
        return
    removed = archive.table(lake, name, ledger)
    entries = tables.dataset(ledger).to_table(archive.KEYS)
    strange = removed.join(entries, keys=archive.KEYS, join_type="left anti")
    if strange.num_rows:
        sentence = f"{files(strange.num_rows)} on record as moved or deleted, such as {strange['path'][0].as_py()}"
        text = f"{sentence}, but missing from its ledger, or there with another size or time"
        yield Finding(FindingKind.WRONG, name, text)
