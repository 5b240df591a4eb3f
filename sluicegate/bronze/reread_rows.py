"""Reload and reset: read archived files again and unite them with the rows that are retained."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluicegate.bronze import landed_paths
from sluicegate.lake import layout, tables
from sluicegate.landing import arrivals
from sluicegate.landing.file_states import LedgerAction, RemovalMode
from sluicegate.landing.moves import archive, moved_files
from sluicegate.schema import typed_values
from sluicegate.schema.columns import PROVENANCE, RESCUED
from sluicegate.schema.landed import landed_names
from sluicegate.schema.values import MICROSECONDS
from sluicegate.spark_sql.identifiers import literal, quote_name
from sluicegate.storage import filesystems, local_files
from sluicegate.storage.concurrent import map_concurrently

# The ledger's path of a file, from the name that Spark gives it: as ``lake.layout.to_ledger_path``.
CANONICAL = "regexp_replace(coalesce(try_url_decode(replace(source_file, '+', '%2B')), source_file), '^file:/+', '/')"


@dataclass
class ArchivedLocations:
    """Locations of the files that ``cleanSource`` took away, for when they are to be read again.

    Attributes:
        lake: the lake.
        name: the bronze table.
        folder: its landing folder, as the ledger's paths begin.
        places: present place of each moved file, by its path in the ledger; filled by ``find``.
    """

    lake: layout.Lake
    name: str
    folder: str = ""
    places: dict[str, str] = field(default_factory=dict)

    def find(self, entries: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, bool]]:
        """Locate the files of some ledger entries.

        Returns:
            files that were moved and no longer exist, or that are now links out of landing, with the
            reason and whether to try again.
        """
        self.places, lost, inside = {}, {}, []
        for entry in entries:
            if self._leads_out(entry["path"]):
                lost[entry["path"]] = (local_files.OUTSIDE, False)
            else:
                inside.append(entry)
        archived = archive.archived_rows(self.lake, self.name, list(map(archive.facts_of, inside)))
        candidates = [(entry, archived.get(archive.facts_of(entry))) for entry in inside]
        away = [(entry, row) for entry, row in candidates if row is not None]
        for (entry, row), location in zip(away, map_concurrently(_locate, away), strict=True):
            match location:
                case "archive":
                    self.places[entry["path"]] = row["place"]
                case "nowhere":
                    lost[entry["path"]] = (_loss_reason(row), True)
        return lost

    def _leads_out(self, path: str) -> bool:
        """Return whether a file is now a link that leads out of landing."""
        if not self.folder or not layout.is_local(self.folder):
            return False
        return path.startswith(f"{self.folder.rstrip('/')}/") and local_files.leads_out(path, self.folder)

    def landed_facts(self, paths: Iterable[str]) -> dict[str, archive.Facts]:
        """Return the files that ``cleanSource`` moved, by their present path, with their facts at landing."""
        below = f"{self.folder.rstrip('/')}/"
        outside = [path for path in paths if not path.startswith(below)]
        if not outside:
            return {}
        ledger = tables.delta_table(self.lake.ledger(self.name))
        if ledger is None:
            return {}
        return archive.landed_facts(self.lake, self.name, ledger, outside)

    def location(self, path: str) -> str:
        """Return where to read the file with this path in the ledger."""
        return self.places.get(path, path)

    def restore_names(self, frame: DataFrame, paths: Sequence[str]) -> DataFrame:
        """Restore the landed names of records that were read from the archive, in rescued data too."""
        names = {self.places[path]: path for path in paths if path in self.places}
        if not names:
            return frame
        # A table of them and not an expression, which Spark would compile: they may be very many.
        former = _broadcast(
            frame.sparkSession, place=list(map(_canonical, names)), path=map(landed_paths.spark_uri, names.values()),
        )  # fmt: skip
        source = F.coalesce(former["path"], F.col("source_file"))
        columns = {name: frame[quote_name(name)] for name in frame.columns} | {"source_file": source}
        if RESCUED in frame.columns:
            columns[RESCUED] = _replace_file_name(F.col(RESCUED), F.col("source_file"), source)
        renamed = [columns[name].alias(name) for name in frame.columns]
        return frame.join(former, F.expr(CANONICAL) == former["place"], "left").select(*renamed)


def _replace_file_name(rescued: Column, file: Column, former: Column) -> Column:
    """Replace the file name at the end of rescued JSON; a URI has no character that JSON escapes."""
    member, former_member = (F.concat(F.lit('"_file_path":"'), name, F.lit('"}')) for name in (file, former))
    values = F.substr(rescued, F.lit(1), F.length(rescued) - F.length(member))
    return F.when(rescued.endswith(member), F.concat(values, former_member)).otherwise(rescued)


@dataclass(frozen=True)
class Former:
    """Rows of a bronze table that are replaced: those from earlier reads of some files.

    Attributes:
        ranges: ledger batches whose rows are replaced, by the rows' path.
        chunks: ledger batches that had files of these paths, in order.
    """

    ranges: Mapping[str, Sequence[arrivals.Batches]]
    chunks: list[int]

    @classmethod
    def from_ledger(
        cls,
        ledger: DeltaTable | None,
        paths: Collection[str],
        chunk: int,
        files: Mapping[str, Mapping[str, Any]] = {},
        archived: Mapping[str, archive.Facts] = {},
    ) -> Former | None:
        """Return the rows that a ledger batch's files gave in earlier batches; None if none.

        Args:
            ledger: the ledger.
            paths: the files.
            chunk: the ledger batch.
            files: known ledger entries of the files.
            archived: files that ``cleanSource`` moved to their present place, with their facts at landing.
        """
        if ledger is None or not paths:
            return None
        aliases = {*paths, *moved_files.aliases(ledger, paths).values()}  # as they were before landing was moved
        several = arrivals.replaced_batches(ledger, aliases, chunk, files)
        ranges = {path: [several.get(path, (0, chunk - 1))] for path in aliases}
        for path, batches in _former_arrivals(ledger, archived, chunk):
            ranges.setdefault(path, []).append(batches)
        entered = pc.field("path").isin(pa.array(sorted(ranges), pa.string())) & (pc.field("chunk") < chunk)
        chunks = sorted(tables.dataset(ledger).to_table(["chunk"], filter=entered)["chunk"].unique().to_pylist())
        if not chunks:
            return None
        return cls(ranges, chunks)

    @property
    def paths(self) -> frozenset[str]:
        """Paths in the rows' ``source_file``."""
        return frozenset(self.ranges)

    def retained_rows(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a table that are not replaced."""
        each_range = [(path, *batches) for path in sorted(self.ranges) for batches in self.ranges[path]]
        paths, first, last = zip(*each_range, strict=True)
        going = _broadcast(rows.sparkSession, path=paths, first=first, last=last)
        chunk = F.col("_chunk")
        same = (F.expr(CANONICAL) == going["path"]) & (chunk >= going["first"]) & (chunk <= going["last"])
        return rows.join(going, same, "left_anti")

    def condition(self, table: DeltaTable) -> str:
        """Return the predicate of the replaced rows for ``replaceWhere``; empty if the table has none.

        It uses names as stored in the table, since Delta skips data files by them.
        """
        parts = tables.dataset(table).scanner(["source_file"], filter=pc.field("_chunk").isin(self.chunks)).to_batches()
        sources = {name for part in parts for name in part["source_file"].unique().to_pylist() if name is not None}
        names = {name: path for name in sorted(sources) if (path := layout.to_ledger_path(name)) in self.ranges}
        conditions, whole = [], []
        for name, path in names.items():
            ranges = self.ranges[path]
            if any(first <= self.chunks[0] and last >= self.chunks[-1] for first, last in ranges):
                whole.append(literal(name))
                continue
            for first, last in ranges:
                conditions.append(f"(source_file = {literal(name)} AND _chunk BETWEEN {first} AND {last})")
        if whole:
            conditions.append(f"source_file IN ({', '.join(whole)})")
        if not conditions:
            return ""
        return f"_chunk BETWEEN {self.chunks[0]} AND {self.chunks[-1]} AND ({' OR '.join(conditions)})"


def _former_arrivals(
    ledger: DeltaTable, archived: Mapping[str, archive.Facts], chunk: int
) -> Iterator[tuple[str, arrivals.Batches]]:
    """Yield the path and ledger batch of each arrival that an archived file was when it landed.

    A file of the archive that somebody copied into the table is a file of its own.
    """
    copied = {
        place
        for place, of_place in arrivals.arrivals_by_path(ledger, list(archived), chunk + 1).items()
        if of_place[0].entries[0]["action"] == LedgerAction.READ
    }
    moved = [facts for place, facts in archived.items() if place not in copied]
    landed = arrivals.arrivals_by_path(ledger, {path for path, _, _ in moved}, chunk)
    for path, size, modification_time in moved:
        for arrival in landed.get(path, []):
            if any((e["size"], e["modification_time"]) == (size, modification_time) for e in arrival.entries):
                yield path, (arrival.batches[0], min(arrival.batches[1], chunk - 1))
                break


def _broadcast(session: SparkSession, **columns: Iterable[Any]) -> DataFrame:
    """Return a small table, broadcast to all executors."""
    return F.broadcast(session.createDataFrame(pa.table({name: list(values) for name, values in columns.items()})))


def _locate(away: tuple[Mapping[str, Any], Mapping[str, Any]]) -> Literal["landing", "archive", "nowhere"]:
    """Return where a file that was moved is now: back in landing, in the archive, or nowhere."""
    entry, row = away
    if filesystems.file_facts(entry["path"]) == (entry["size"], entry["modification_time"]):
        return "landing"
    if row["place"] and filesystems.file_facts(row["place"]):
        return "archive"
    return "nowhere"


def _loss_reason(row: Mapping[str, Any]) -> str:
    when = row["archived"].strftime("%Y-%m-%d %H:%M")
    if row["mode"] == RemovalMode.MOVE:
        return f"it was moved to {row['place']} on {when}, and is missing there"
    if row["mode"] == RemovalMode.DELETE:
        return f"it was deleted by cleanSource on {when}"
    return f"it was missing on {when}"


def _canonical(place: str) -> str:
    if layout.is_local(place):
        return layout.local_path(place)
    return place


def union(new: DataFrame, retained: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Unite new rows with retained ones; a retained value that does not fit the new columns becomes rescued data.

    It is rescued under the landed name of its field, as all rescued data is.

    Args:
        new: rows of the files that are read.
        retained: rows of the table that stay.
        options: reader options by lower-case name, by which retained texts become times.
    """
    texts = typed_values.TypedTexts(options)
    types = {field.name.lower(): (field.name, field.dataType) for field in new.schema}
    landed = landed_names(retained.schema)
    columns: list[Column] = []
    misfits: list[Column] = []
    for old in retained.schema:
        if old.name in PROVENANCE:
            continue
        column = F.col(quote_name(old.name))
        name, kind = types.get(old.name.lower(), (old.name, old.dataType))
        part = typed_values.fit_value(column, old.dataType, kind, texts)
        columns.append(part.value.alias(name))
        if part.lost is not None:
            misfit = F.when(part.lost, typed_values.to_printable(column, old.dataType))
            misfits.append(misfit.alias(landed.get(old.name, old.name)))
    provenance = [F.col(name) for name in PROVENANCE if name in retained.columns and name != RESCUED]
    rescued = F.col(RESCUED)
    if misfits:
        rescued = _add_rescued(misfits)
    both = new.unionByName(retained.select(*columns, rescued.alias(RESCUED), *provenance), allowMissingColumns=True)
    last = [column for column in PROVENANCE if column in both.columns]
    return both.select(*[quote_name(column) for column in both.columns if column not in last], *last)


def _add_rescued(misfits: Sequence[Column]) -> Column:
    """Add misfits to the rescued data of a retained row; Spark omits NULL members from JSON."""
    stored = F.col(RESCUED)
    more = F.to_json(F.struct(*misfits), MICROSECONDS)
    with_file = F.to_json(F.struct(*misfits, F.col("source_file").alias("_file_path")), MICROSECONDS)
    added = F.concat(
        F.expr(f"substring({RESCUED}, 1, length({RESCUED}) - 1)"), F.lit(","), F.substring(more, 2, 1 << 30)
    )
    return F.when(more == "{}", stored).otherwise(F.when(stored.isNull(), with_file).otherwise(added))
