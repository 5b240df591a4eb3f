"""Files of a bronze table, newest first and a page at a time: of a million entries a page reads its own ledger batches.

The states are those of ``landing.file_status.statuses``. Where that reads the whole ledger, this reads the entries of a
page, the statuses of their batches, and the later entries of the same files, by which their rows were replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.definition.pipeline import bronze_table
from sluicegate.errors import PipelineMissing
from sluicegate.lake import layout, tables
from sluicegate.landing import archive, file_status
from sluicegate.monitor import status
from sluicegate.monitor.views.source import Answer, Source

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, Pipeline

PAGE = 100
"""Files of a page, at least: the ledger batch of the last of them is there as a whole."""

FEW = 20_000
"""Entries of a ledger up to which the states of all are counted, and about which a page reads at most."""

LANDED = ("waiting", "settling", "changed", "refused")
"""States of files that are in landing and not in the ledger."""


@dataclass(frozen=True)
class File:
    """A file.

    Attributes:
        path: its path.
        state: see ``monitor.status.STATES``.
        size: its size in bytes.
        modified: its modification time (UTC).
        batch: its ledger batch; None for a file that is not in the ledger.
        discovered: when it was entered into the ledger (UTC).
        ingested: when bronze committed its rows (UTC).
        rows: its records.
        corrupt: those that cannot be parsed.
        rescued: those with values in ``_rescued_data``.
        error: why it could not be read.
        version: version of the bronze table that has its rows.
    """

    path: str
    state: str
    size: int | None = None
    modified: datetime | None = None
    batch: int | None = None
    discovered: datetime | None = None
    ingested: datetime | None = None
    rows: int | None = None
    corrupt: int | None = None
    rescued: int | None = None
    error: str = ""
    version: int | None = None

    @property
    def lag(self) -> float | None:
        """Seconds from its landing to its rows in bronze; None if clocks differ so that there are none."""
        if self.ingested is None or self.modified is None:
            return None
        seconds = (self.ingested - self.modified).total_seconds()
        return seconds if seconds >= 0 else None


Page = tuple[list[File], int | None]
"""Files, and the ledger batch before which there are more."""


@dataclass(frozen=True)
class FilesView:
    """Files of a bronze table.

    Attributes:
        pipeline: its pipeline.
        table: the bronze table.
        folder: the landing folder, as the definition has it.
        of_files: whether it reads files; what reads a Delta table or Kafka has versions or ranges of offsets here.
        entries: entries of the ledger.
        counts: files by state, those of landing and of the ledger; None for what takes too long to count.
        state: the state that is shown; empty for all.
        files: the files of this page, newest first.
        older: ledger batch before which the next page begins; None if this is the last one.
        listed: when landing was listed (UTC); None while that is being done.
        error: why landing cannot be listed.
        searching: whether the files are still being looked for: those in one state may lie anywhere in the ledger.
    """

    pipeline: str
    table: str
    folder: str
    of_files: bool
    entries: int
    counts: dict[str, int | None]
    state: str
    files: tuple[File, ...]
    older: int | None
    listed: datetime | None
    error: str
    searching: bool = False


def files_view(source: Source, pipeline: Pipeline, name: str, state: str = "", before: int | None = None) -> FilesView:
    """A page of files.

    Args:
        source: where things are.
        pipeline: the definition.
        name: the bronze table.
        state: only files in this state; empty for all.
        before: only files of ledger batches before this one.

    Raises:
        PipelineMissing: there is no such bronze table, or no such state.
    """
    table = bronze_table(pipeline, name)
    if state and state not in status.STATES:
        raise PipelineMissing("there is no such state of a file")
    if not (table.of_files or table.kafka):
        return _of_versions(source, pipeline, name, state, before)
    at = source.lake(pipeline)
    entries = source.rows(at.ledger(name)) if table.of_files else _ranges(source, at.ledger(name))
    answer = source.soon(("landed", pipeline.name, name), lambda: _landed(pipeline, name)) if table.of_files else None
    landed = (answer.value or ()) if answer is not None else ()
    listed = answer.since if answer is not None and answer.error is None else None
    counts = _counts(source, pipeline, name, entries)
    if table.of_files:
        unlisted = counts.pop("waiting", 0) or 0  # entered, and not in bronze yet
        counts |= {one: sum(file.state == one for file in landed) if listed is not None else None for one in LANDED}
        if (of_landing := counts["waiting"]) is not None:
            counts["waiting"] = of_landing + unlisted
    found: list[File] = []
    older: int | None = None
    searching = False
    if state in LANDED and state != "waiting":
        found = [file for file in landed if file.state == state][:PAGE]
    else:
        if before is None:
            found = [file for file in landed if not state or file.state == state][:PAGE]
        source.dataset(at.outcome(name))
        page = _page(source, table, at, name, state, before)
        searching = page.value is None and page.error is None
        if page.error is not None:
            raise page.error
        entered, older = page.value or ([], None)
        found += entered
    error = answer.error.message if answer is not None and answer.error is not None else ""
    return FilesView(
        pipeline.name,
        name,
        table.path or "",
        table.of_files,
        entries,
        counts,
        state,
        tuple(found),
        older,
        listed,
        error,
        searching,
    )


def _of_versions(source: Source, pipeline: Pipeline, name: str, state: str, before: int | None) -> FilesView:
    """What each run took of a Delta table, and the versions that wait, in place of files."""
    path = pipeline.bronze[name].path
    found = [source.table(one) for one in (source.lake(pipeline).table("bronze", name), path)]
    stamp = tuple((tables.table_id(one), one.version()) if one is not None else None for one in found)
    answer = source.soon(("versions", pipeline.name, name, stamp), lambda: _versions(pipeline, name))
    every = answer.value or ()
    counts: dict[str, int | None] = {one: sum(file.state == one for file in every) for one in _OF_VERSIONS}
    wanted = [one for one in every if (not state or one.state == state) and (before is None or _ends(one) < before)]
    shown = tuple(wanted[:PAGE])
    older = _ends(shown[-1]) if len(wanted) > PAGE else None
    error = answer.error.message if answer.error is not None else ""
    searching = answer.value is None and not error
    return FilesView(
        pipeline.name, name, path, False, len(every), counts, state, shown, older, answer.since, error, searching
    )  # fmt: skip


_OF_VERSIONS = ("waiting", "ingested", "replaced")


def _versions(pipeline: Pipeline, name: str) -> tuple[File, ...]:
    return tuple(_file(row) for row in reversed(status.files(name, pipeline, pipeline.settings).to_pylist()))


def _ends(file: File) -> int:
    """Version of its source that a run ended at."""
    return file.batch if file.batch is not None else -1


def _ranges(source: Source, ledger: str) -> int:
    """Ranges of offsets that a ledger has."""
    counted = source.once(ledger, "ranges", lambda one: status.with_records(tables.dataset(one).to_table(["size"])))
    return 0 if counted is None else int(counted.num_rows)


def _landed(pipeline: Pipeline, name: str) -> tuple[File, ...]:
    """Files in landing that the ledger does not have as they are."""
    found = (
        status.files(name, pipeline, pipeline.settings, LANDED) if _few(pipeline, name) else _discovered(pipeline, name)
    )
    rows = found.filter(pc.is_null(found["chunk"])).to_pylist()
    return tuple(_file(row) for row in reversed(rows))


def _few(pipeline: Pipeline, name: str) -> bool:
    at = layout.Lake(pipeline.settings.lake, pipeline.name)
    return tables.rows(tables.delta_table(at.ledger(name))) <= FEW


def _discovered(pipeline: Pipeline, name: str) -> pa.Table:
    """The same as ``status.files`` for files that are not in the ledger, without the ledger's own."""
    from sluicegate.landing import discovery

    at = layout.Lake(pipeline.settings.lake, pipeline.name)
    seen = discovery.discover(name, pipeline.bronze[name], at)
    parts = []
    for state, table in (("changed", seen.changed), ("waiting", seen.new), ("settling", seen.settling)):
        named = table.select(["path", "size", "modification_time"])
        parts.append(named.append_column("state", pa.repeat(pa.scalar(state), table.num_rows)))
    refused = [{"path": path, "state": "refused", "error": why} for path, why in seen.refused.items()]
    parts.append(pa.Table.from_pylist(refused, pa.schema([(n, pa.string()) for n in ("path", "state", "error")])))
    parts.append(file_status.STATUSES.empty_table())
    return pa.concat_tables(parts, promote_options="default")


def _counts(source: Source, pipeline: Pipeline, name: str, entries: int) -> dict[str, int | None]:
    """Entries of the ledger by state; of many entries those that failed or wait, which are few of them."""
    at, table = source.lake(pipeline), pipeline.bronze[name]
    if entries <= FEW:
        stamp = tuple(source.rows(uri) for uri in (at.table("bronze", name), at.outcome(name), at.archive(name)))
        found = source.once(at.ledger(name), ("states", stamp), lambda _: _states(table, at, name))
        return dict(found or {})
    opened = source.opened()
    failed = source.once(
        at.outcome(name), "failed", lambda _: file_status.read(at, name, ["path"], _FAILED, opened).num_rows
    )
    bronze = source.table(at.table("bronze", name))
    now = None if bronze is None else (tables.table_id(bronze), bronze.version())
    waits = source.once(
        at.ledger(name), ("unread", now), lambda ledger: len(file_status.unread(at, name, ledger, opened))
    )
    return {"waiting": waits or 0, "failed": failed or 0, "ingested": None}


_FAILED = pc.field("error").is_valid()


def _states(table: BronzeTable, at: layout.Lake, name: str) -> dict[str, int | None]:
    counted = status.of_ledger(name, table, at)["state"].value_counts().to_pylist()
    return {one["values"]: one["counts"] for one in counted}


def _page(source: Source, of: BronzeTable, at: layout.Lake, name: str, state: str, before: int | None) -> Answer[Page]:
    """Files of a page, found once for the versions of the tables that they are in."""
    found = [
        source.table(uri) for uri in (at.ledger(name), at.table("bronze", name), at.outcome(name), at.archive(name))
    ]
    versions = tuple((tables.table_id(table), table.version()) if table is not None else None for table in found)
    what = ("files", at, name, versions, state, before)
    if state:
        return source.soon(what, lambda: _of_ledger(source, of, at, name, state, before))
    known = source.once(at.ledger(name), what, lambda _: _of_ledger(source, of, at, name, state, before))
    return Answer(known or ([], None))


def _of_ledger(
    source: Source, of: BronzeTable, at: layout.Lake, name: str, state: str, before: int | None
) -> tuple[list[File], int | None]:
    """Files of a page, and the ledger batch before which the next one begins."""
    ledger = source.table(at.ledger(name))
    if ledger is None:
        return [], None
    if state == "failed":
        return _failed(source, at, name, ledger, before)
    found: list[File] = []
    last = before
    for first in _windows(ledger, before):
        last = first
        read = _window(source, of, at, name, first, before)
        found = [file for file in reversed(read) if not state or file.state == state]
        if len(found) >= PAGE or len(read) >= FEW:  # a state that hardly any file has is not looked for in all of them
            break
    older = last if last is not None and last > 0 and _has_before(ledger, last) else None
    return found, older


def _windows(ledger: DeltaTable, before: int | None) -> Iterator[int]:
    """First ledger batch of ever larger windows that end before a batch, the first of them with some ``PAGE`` files."""
    sizes = tables.statistics(ledger, "max.chunk", "num_records").to_pylist()
    newest = max((int(one["max.chunk"]) for one in sizes if one["max.chunk"] is not None), default=0)
    end = newest + 1 if before is None else min(before, newest + 1)
    width = max(1, PAGE * (newest + 1) // max(1, sum(one["num_records"] or 0 for one in sizes)))
    while end > 0:
        yield max(0, end - width)
        if width >= end:
            return
        width *= 4


def _has_before(ledger: DeltaTable, batch: int) -> bool:
    least = [one["min.chunk"] for one in tables.statistics(ledger, "min.chunk").to_pylist()]
    return any(one is None or one < batch for one in least)


def _window(source: Source, of: BronzeTable, at: layout.Lake, name: str, first: int, before: int | None) -> list[File]:
    """Files of ledger batches from one on and before another, in the order of reading."""
    inside = pc.field("chunk") >= first
    if before is not None:
        inside = inside & (pc.field("chunk") < before)
    entries = tables.where(source.dataset(at.ledger(name)), inside)
    paths = entries["path"]
    if before is not None and entries.num_rows:
        renewing = (pc.field("chunk") >= before) & pc.field("action").isin(["replace", "reset", "drop"])
        later = tables.where(source.dataset(at.ledger(name)), renewing)
        known = pa.concat_arrays([paths.combine_chunks(), _archived_at(source, at, name, entries)])
        renewed = later.filter(pc.is_in(later["path"], value_set=known))
        if renewed.num_rows:  # else nothing that came later touches the files of this page
            of_same = (pc.field("chunk") >= before) & pc.field("path").isin(renewed["path"].unique().to_pylist())
            entries = pa.concat_tables([entries, tables.where(source.dataset(at.ledger(name)), of_same)])
    found = file_status.of_entries(at, name, entries, first, source.opened())
    shown = found if before is None else found.filter(pc.less(found["chunk"], before))
    shown = shown if of.kafka is None else status.with_records(shown)
    return [_file(row) for row in shown.to_pylist()]


def _archived_at(source: Source, at: layout.Lake, name: str, entries: pa.Table) -> pa.Array:
    """Addresses in the archive of some entries, under which they may have been read again."""
    ledger, log = source.opened()[at.ledger(name)].delta, source.opened()[at.archive(name)].delta
    if ledger is None or log is None:
        return pa.array([], pa.string())
    return archive.among(at, name, ledger, entries)["place"].combine_chunks().drop_null()


def _failed(
    source: Source, at: layout.Lake, name: str, ledger: DeltaTable, before: int | None
) -> tuple[list[File], int | None]:
    wrong = file_status.read(at, name, ["path", "chunk"], _FAILED, source.opened())
    if before is not None:
        wrong = wrong.filter(pc.less(wrong["chunk"], before))
    chosen = wrong.sort_by([("chunk", "descending")]).slice(0, PAGE)
    if not chosen.num_rows:
        return [], None
    batches = sorted(set(chosen["chunk"].to_pylist()))
    # Each file with all that came later of it: what was read whole since is failed no more, but replaced.
    entries = tables.where(source.dataset(at.ledger(name)), pc.field("path").isin(chosen["path"].unique().to_pylist()))
    found = file_status.of_entries(at, name, entries, batches[0], source.opened())
    rows = [_file(row) for row in found.to_pylist() if row["state"] == "failed" and row["chunk"] in set(batches)]
    return list(reversed(rows)), batches[0] if wrong.num_rows > PAGE else None


def _file(row: dict[str, Any]) -> File:
    return File(
        row["path"], row["state"], row.get("size"), row.get("modification_time"), row.get("chunk"),
        row.get("discovered"), row.get("ingested"), row.get("rows"), row.get("corrupt"), row.get("rescued"),
        row.get("error") or "", row.get("version"),
    )  # fmt: skip
