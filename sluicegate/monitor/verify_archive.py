"""Verification of the archive of ``cleanSource``: files in it that no ledger knows, whose rows may be in no table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluicegate.console import files
from sluicegate.flow.finding import Finding
from sluicegate.lake import layout, tables
from sluicegate.landing import archive, archived_files, readers

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline


def findings(pipeline: Pipeline, name: str, at: layout.Lake) -> Iterator[Finding]:
    """Files in the archive of a bronze table that no table knows that moves its files there.

    Args:
        pipeline: the definition.
        name: the bronze table.
        at: the lake.
    """
    yield from _without_entry(name, at)
    destination = pipeline.bronze[name].cleanSourceMoveDestination
    if destination is None:
        return
    try:
        unknown = archived_files.unknown_to_all(pipeline, name, at)
    except OSError as error:
        yield Finding("unproved", name, f"its archive {destination} cannot be listed: {error}")
        return
    if not unknown.num_rows:
        return
    what = f"no ledger knows {files(unknown.num_rows)} of its archive, such as {unknown['path'][0].as_py()}"
    if others := readers.sharing_archive(pipeline, name):
        of = ", ".join(map(str, others))
        yield Finding("unproved", name, f"{what}; it is the archive of {of}, too, so they may be of that")
        return
    yield Finding(
        "wrong", name, f"{what}: their rows may be in no table", f"sluicegate reload {at.pipeline} {name} --archived"
    )


def _without_entry(name: str, at: layout.Lake) -> Iterator[Finding]:
    """Files that are on record as moved or deleted, and that the ledger does not have as they were."""
    ledger = tables.delta_table(at.ledger(name))
    if ledger is None:
        return
    removed = archive.table(at, name, ledger)
    entries = tables.dataset(ledger).to_table(archive.KEYS)
    strange = removed.join(entries, keys=archive.KEYS, join_type="left anti")
    if strange.num_rows:
        what = f"{files(strange.num_rows)} on record as moved or deleted, such as {strange['path'][0].as_py()}"
        yield Finding("wrong", name, f"{what}, of which its ledger has other sizes or times, or nothing")
