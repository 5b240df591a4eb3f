"""Files in the archive of ``cleanSource`` that no ledger knows: moved after the backup that was put back, say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.errors import UserError, Where
from sluicegate.lake import layout, tables
from sluicegate.landing import discovery, folders, readers
from sluicegate.landing.moves import archive
from sluicegate.storage import filesystems, listings
from sluicegate.storage.concurrent import map_concurrently
from sluicegate.storage.listings import FILES

# The number in the name of a file whose own name was taken in the archive.
NUMBER = re.compile(r"^([^.]*)\.\d+(?=\.|$)")


def unknown_files(name: str, table: BronzeTable, lake: layout.Lake) -> pa.Table:
    """Return files in the archive of a bronze table that its ledger does not know (schema ``FILES``), by path.

    A file is known if a run has recorded that it was moved there, if the ledger has its address, or if it has the name,
    size and time of a file that the ledger has, of this or a former landing folder, or that lies in landing.

    Args:
        name: the bronze table.
        table: its definition.
        lake: the lake.

    Raises:
        OSError: the archive cannot be listed.
    """
    if table.cleanSourceMoveDestination is None or not table.reads_files:
        return FILES.empty_table()
    archived, _ = folders.folder_of(table.cleanSourceMoveDestination)
    try:
        archived_files = discovery.admit_files(listings.files(archived), table, archived)
    except FileNotFoundError:  # nothing was moved yet
        return FILES.empty_table()
    return _exclude_known(archived_files.sort_by("path"), name, table, lake)


def unknown_shared_files(pipeline: Pipeline, name: str, lake: layout.Lake) -> pa.Table:
    """Return archived files unknown to all tables that move their files there (schema ``FILES``)."""
    files = unknown_files(name, pipeline.bronze[name], lake)
    for other in readers.readers_sharing_archive(pipeline, name) if files.num_rows else ():
        if other.table is not None:
            files = _exclude_known(files, other.name, other.table, other.lake)
    return files


def _exclude_known(files: pa.Table, name: str, table: BronzeTable, lake: layout.Lake) -> pa.Table:
    ledger = tables.delta_table(lake.ledger(name))
    if ledger is None or not files.num_rows:
        return files
    destination = str(table.cleanSourceMoveDestination).rstrip("/")
    archived = folders.folder_of(destination)[0].rstrip("/")
    places = [place for place in archive.table(lake, name, ledger)["place"].to_pylist() if place]
    entries = set(map(archive.facts_of, tables.dataset(ledger).to_table(FILES.names).to_pylist()))
    recorded = {path for path, _, _ in entries}
    paths: dict[tuple[Any, ...], list[str]] = {}
    for path, *facts in entries:
        paths.setdefault(tuple(facts), []).append(path)
    recorded |= {re.sub(f"^{re.escape(destination)}(?=/)", lambda _: archived, place) for place in places}
    unrecorded = [file for file in files.to_pylist() if file["path"] not in recorded]
    landing = folders.home(lake, name, table.path).folder
    copies = map_concurrently(partial(_is_copy, archived=archived, landing=landing, paths=paths), unrecorded)
    return pa.Table.from_pylist([file for file, is_copy in zip(unrecorded, copies, strict=True) if not is_copy], FILES)


def _is_copy(file: dict[str, Any], archived: str, landing: str, paths: Mapping[tuple[Any, ...], Sequence[str]]) -> bool:
    """Return whether a file of the archive is also in the ledger or in landing."""
    below = file["path"][len(archived) :].lstrip("/")
    folder, slash, file_name = below.rpartition("/")
    facts = (file["size"], file["modification_time"])
    for name in {file_name, NUMBER.sub(r"\1", file_name)}:
        relative = f"/{folder}{slash}{name}"
        if any(path.endswith(relative) for path in paths.get(facts, ())):
            return True
        if filesystems.file_facts(f"{landing.rstrip('/')}{relative}") == facts:
            return True
    return False


def demand_own_archive(pipeline: Pipeline, name: str) -> None:
    """Refuse to read a whole archive to which other tables move their files.

    Raises:
        UserError: the table has no archive, or another table has the same.
    """
    destination = pipeline.bronze[name].cleanSourceMoveDestination
    if destination is None:
        raise UserError(f"{name} has no archive: its files are not moved", where=Where(table=name))
    sharing = readers.readers_sharing_archive(pipeline, name)
    if sharing:
        raise UserError(
            f"files in {destination} may also belong to {', '.join(map(str, sharing))}",
            where=Where(table=name),
            cause="several tables move their files there, so an unknown file may belong to any of them",
            hint="list the files of this table with --files",
        )
