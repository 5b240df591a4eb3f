"""Discards of quarantined records, each with who decided it, when, and a note.

Discards are in a separate table, ``_state/{table}_discarded``, by the identity of the records; the quarantine is
unchanged. So a run reads and writes nothing more, its commits never conflict with ours, and a quarantine that is
rebuilt, record by record under the same identities, keeps its discards.

A discard counts for a row that breaks no other rules than those which it broke when it was discarded: one that breaks
another rule as well is news. Its file counts, too, since a table that is moved away and made again gives its numbers to
other records. What counts is computed when it is read, from both tables, and written nowhere.

Here is what a discard is, and how one is written and read. Which records a command discards is decided by
``launch/discard.py``, for the command line, the API and the page alike. ``monitor/views/discarded.py`` keeps the counts
that the page shows, and ``silver/selected_records.py`` leaves the same rows out of a replay, in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate import _faults
from sluicegate.errors import NotADeltaTable, SluicegateError, Where
from sluicegate.lake import tables
from sluicegate.lake.commits.commit_info import CommitInfo, CommitStep, DiscardFacts, Fact
from sluicegate.lake.layout import is_local
from sluicegate.storage.store_errors import COLOURS

# Attempts at a commit beside others that discard records of the same table.
ATTEMPTS = 10

RULES, WHEN = "_failed_expectations", "_quarantined_at"

# Identity of a row, its file, and the rules that it broke; of the numbers a table has those that its rows need.
NUMBERS = ("_chunk", "_pos", "_record_row")
_NAMES = ("_record_flow", "source_file")
KEYS = (*NUMBERS, *_NAMES)

DISCARDS = pa.schema(
    [
        ("_chunk", pa.int64()), ("_pos", pa.int64()), ("_record_row", pa.int64()), ("_record_flow", pa.string()),
        ("source_file", pa.string()), ("rules", pa.list_(pa.string())), ("discard", pa.string()),
        ("discarded_at", pa.timestamp("us", "UTC")), ("discarded_by", pa.string()), ("note", pa.string()),
    ]
)  # fmt: skip

# Between rules in a text of several: no name of a rule has it.
_BETWEEN = "\x1f"


def quarantined_rows(quarantine: DeltaTable) -> pa.Table:
    """Return the rows of a quarantine: ``KEYS`` with NULL as -1 or an empty text, ``rules`` as one text, and ``WHEN``.

    Texts are dictionaries, so that of a million rows there are a few numbers each.
    """
    columns = {field.name for field in quarantine.schema().fields}
    names, times = sorted({*KEYS, RULES, WHEN} & columns), sorted({WHEN} & columns)
    batches = tables.dataset(quarantine).to_batches(names, batch_readahead=1, fragment_readahead=1)
    parts = [comparable_rows(batch, RULES, times) for batch in batches]
    if not parts:
        return quarantined_rows_if_any(None)
    return pa.concat_tables(parts).unify_dictionaries()


def quarantined_rows_if_any(quarantine: DeltaTable | None) -> pa.Table:
    """Return ``quarantined_rows`` of a quarantine that may not exist yet."""
    if quarantine is None:
        return comparable_rows(pa.schema([(WHEN, pa.timestamp("us", "UTC"))]).empty_table(), RULES, [WHEN])
    return quarantined_rows(quarantine)


def recorded_discards(discards: DeltaTable | None) -> pa.Table:
    """Return all discards (schema ``DISCARDS``) in order of creation, also those that count for no row now."""
    if discards is None:
        return DISCARDS.empty_table()
    rows = tables.dataset(discards).to_table(DISCARDS.names).cast(DISCARDS)
    return rows.sort_by([("discarded_at", "ascending"), ("discard", "ascending")])


def comparable_rows(rows: Any, rules: str, more: Sequence[str] = ()) -> pa.Table:
    """Return rows in the form in which they are compared, as ``quarantined_rows`` has them.

    Args:
        rows: an Arrow batch or table with ``KEYS``, of which some may be missing.
        rules: name of the column with the rules.
        more: further columns to keep.
    """
    columns: dict[str, Any] = {name: pc.fill_null(_column(rows, name, pa.int64()), -1) for name in NUMBERS}
    for name in _NAMES:
        columns[name] = _dictionary(pc.fill_null(_column(rows, name, pa.string()), ""))
    lists = _column(rows, rules, pa.list_(pa.string()))
    columns["rules"] = _dictionary(pc.fill_null(pc.binary_join(lists, _BETWEEN), ""))
    return pa.table(columns | {name: rows[name] for name in more})


def _column(rows: Any, name: str, kind: pa.DataType) -> Any:
    """Return the column of rows in a type; NULL if they have none of this name."""
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, kind)
    return rows[name].cast(kind)


def _dictionary(texts: Any) -> Any:
    return texts.cast(pa.dictionary(pa.int32(), pa.string()))


def rules_of(text: str) -> tuple[str, ...]:
    """Split the text of several rules, as ``quarantined_rows`` has it."""
    if not text:
        return ()
    return tuple(text.split(_BETWEEN))


def match_discards(rows: pa.Table, discards: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return the discarded rows of a quarantine, each with the newest discard that counts for it.

    Args:
        rows: rows of ``quarantined_rows``.
        discards: rows of ``recorded_discards``.

    Returns:
        positions of the discarded rows in order, and for each the position of its discard.
    """
    nothing = pa.array([], pa.int64())
    if not (rows.num_rows and discards.num_rows):
        return nothing, nothing
    keyed_discards = comparable_rows(discards, "rules")
    candidates = _candidate_rows(keyed_discards, rows, "discard")
    placed = _candidate_rows(rows, keyed_discards, "row")
    pairs = placed.join(candidates, [*KEYS], join_type="inner", right_suffix="_by")
    # Few sets of rules, however many rows: whether one is part of another is asked once for two of them.
    sets = pairs.group_by(["rules", "rules_by"]).aggregate([]).to_pylist()
    parts = [pair for pair in sets if {*rules_of(pair["rules"])} <= {*rules_of(pair["rules_by"])}]
    if not parts:
        return nothing, nothing
    pairs = pairs.join(pa.Table.from_pylist(parts), ["rules", "rules_by"], join_type="left semi")
    newest = pairs.group_by("row").aggregate([("discard", "max")]).sort_by([("row", "ascending")])
    return newest["row"].combine_chunks(), newest["discard_max"].combine_chunks()


def _candidate_rows(rows: pa.Table, compared: pa.Table, place: str) -> pa.Table:
    """Return the rows whose ledger batch is in others too, with their places, and text as Arrow joins it."""
    placed = rows.select([*KEYS, "rules"]).append_column(place, pa.array(range(rows.num_rows), pa.int64()))
    near = placed.filter(pc.is_in(placed["_chunk"], value_set=pc.unique(compared["_chunk"])))
    plain = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in near.schema]
    return near.cast(pa.schema(plain))


@dataclass(frozen=True)
class Discarded:
    """Result of one discard.

    Attributes:
        id: ID of the DAG run, or of the command.
        time: time of the discard (UTC).
        by: user who discarded.
        note: reason.
        rules: rules that the records broke.
        records: number of quarantined rows that it applies to now.
    """

    id: str
    time: datetime
    by: str
    note: str
    rules: tuple[str, ...]
    records: int


def list_discards(rows: pa.Table, discards: pa.Table) -> list[Discarded]:
    """List the recorded discards, newest first; one that no longer counts has 0 records.

    Args:
        rows: rows of ``quarantined_rows``.
        discards: rows of ``recorded_discards``.
    """
    if not discards.num_rows:
        return []
    _, of = match_discards(rows, discards)
    places, columns = (
        pa.array(range(discards.num_rows), pa.int64()),
        ["discard", "discarded_at", "discarded_by", "note"],
    )
    decided = discards.select(columns)
    decided = decided.append_column("rules", pc.binary_join(discards["rules"], _BETWEEN))
    decided = decided.append_column("place", places).join(_count_by_place(of), "place", join_type="left outer")
    counted = decided.group_by([*columns, "rules"]).aggregate([("records", "sum")])
    by_id: dict[str, Discarded] = {}
    for row in counted.to_pylist():
        rules, records = {*rules_of(row["rules"])}, row["records_sum"] or 0
        if part := by_id.get(row["discard"]):
            rules |= {*part.rules}
            records += part.records
        by_id[row["discard"]] = Discarded(
            row["discard"], row["discarded_at"], row["discarded_by"] or "", row["note"] or "", tuple(sorted(rules)),
            records,
        )  # fmt: skip
    return sorted(by_id.values(), key=lambda discarded: (discarded.time, discarded.id), reverse=True)


def _count_by_place(places: pa.Array) -> pa.Table:
    return (
        pa.table({"place": places})
        .group_by("place")
        .aggregate([([], "count_all")])
        .rename_columns(["place", "records"])
    )


def count_by_rule(rows: pa.Table) -> dict[str, int]:
    """Count the rows of a quarantine by broken rule, most first."""
    counted = rows.group_by("rules").aggregate([([], "count_all")]).to_pylist()
    counts: dict[str, int] = {}
    for row in counted:
        for rule in rules_of(row["rules"]):
            counts[rule] = counts.get(rule, 0) + row["count_all"]
    return dict(sorted(counts.items(), key=lambda count: (-count[1], count[0])))


def discarded_rows(quarantine: DeltaTable, discards: DeltaTable | None) -> int:
    """Count the discarded rows of a quarantine; nothing is read if there is no discard."""
    if discards is None or not tables.rows(discards):
        return 0
    return len(match_discards(quarantined_rows(quarantine), recorded_discards(discards))[0])


def waiting_rows(rows: pa.Table, discards: pa.Table) -> pa.Table:
    """Return the rows of a quarantine that are not discarded."""
    discarded, _ = match_discards(rows, discards)
    return rows.filter(pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int64()), value_set=discarded)))


def breach_mask(rows: pa.Table, rules: Sequence[str]) -> Any:
    """Return a mask of the rows that broke one of the rules; all if none is named. Rules are a text or a list."""
    if not rules:
        return pa.repeat(pa.scalar(True), rows.num_rows)
    texts = rows["rules"]
    if pa.types.is_list(texts.type):
        texts = pc.binary_join(texts, _BETWEEN)
    texts = texts.cast(pa.string())
    breaking = [text for text in pc.unique(texts).to_pylist() if {*rules_of(text)} & {*rules}]
    return pc.is_in(texts, value_set=pa.array(breaking, pa.string()))


def violating_rows(rows: pa.Table, rules: Sequence[str]) -> pa.Table:
    """Return the rows that broke one of the rules; all if none is named."""
    return rows.filter(breach_mask(rows, rules))


def common_rows(rows: pa.Table, compared: pa.Table) -> pa.Table:
    """Return the rows that others contain too, by identity, file and rules."""
    others = _candidate_rows(compared, rows, "other")
    shared = _candidate_rows(rows, compared, "row").join(others, [*KEYS, "rules"], join_type="left semi")
    return rows.take(shared["row"].combine_chunks().sort())


def add(uri: str, rows: pa.Table, discard: str, by: str, note: str) -> int:
    """Discard rows of a quarantine in one commit, except those that are discarded already.

    Args:
        uri: the table of discards, which is created if missing.
        rows: rows of ``quarantined_rows``.
        discard: ID of this discard.
        by: user who discards.
        note: reason.

    Returns:
        the number of rows discarded now.

    Raises:
        SluicegateError: other programs keep discarding records of the table, or its folder is not writable.
    """

    def append_discards(table: DeltaTable | None) -> tuple[pa.Table, int]:
        undecided = waiting_rows(rows, recorded_discards(table))
        return _new_discards(undecided, discard, by, note), undecided.num_rows

    return _commit(uri, append_discards, {DiscardFacts.discard: discard, DiscardFacts.by: by}, mode="append")


def take_back(uri: str, chosen: Callable[[pa.Table], Any], by: str) -> int:
    """Undo discards in one commit.

    Args:
        uri: the table of discards.
        chosen: returns a mask of the discards (schema ``DISCARDS``) to undo.
        by: user who undoes them.

    Returns:
        the number of rows whose discard was undone.

    Raises:
        SluicegateError: other programs keep discarding records of the table, or its folder is not writable.
    """

    def remove_discards(table: DeltaTable | None) -> tuple[pa.Table, int]:
        discards = recorded_discards(table)
        taken_back = chosen(discards)
        return discards.filter(pc.invert(taken_back)), pc.sum(taken_back).as_py() or 0

    return _commit(uri, remove_discards, {DiscardFacts.undone_by: by}, mode="overwrite")


def _new_discards(rows: pa.Table, discard: str, by: str, note: str) -> pa.Table:
    plain = _candidate_rows(rows, rows, "_row")
    columns = {name: pc.if_else(pc.equal(plain[name], -1), None, plain[name]) for name in NUMBERS}
    columns |= {name: pc.if_else(pc.equal(plain[name], ""), None, plain[name]) for name in _NAMES}
    columns["rules"] = pc.split_pattern(plain["rules"], _BETWEEN)
    facts = {"discard": discard, "discarded_at": datetime.now(UTC), "discarded_by": by, "note": note}
    columns |= {
        name: pa.repeat(pa.scalar(value, DISCARDS.field(name).type), rows.num_rows) for name, value in facts.items()
    }
    return pa.table(columns).select(DISCARDS.names).cast(DISCARDS)


def _commit(
    uri: str, change: Callable[[DeltaTable | None], tuple[pa.Table, int]], facts: Mapping[Fact[Any], Any], *, mode: str
) -> int:
    """Commit a change as the version after the one it was computed for, retried while others commit first."""
    for _ in range(ATTEMPTS):
        table = tables.delta_table(uri)
        rows, count = change(table)
        if not count:
            return 0
        info = CommitInfo.of({CommitInfo.step: CommitStep.DISCARD, DiscardFacts.rows: count, **facts})
        properties = CommitProperties(max_commit_retries=0, custom_metadata=info.properties())
        _faults.point("discards.before_commit")
        try:
            if table is None:
                tables.write(uri, rows, mode="error", commit_properties=properties)
            else:
                tables.write(table, rows, mode=mode, commit_properties=properties)
            return count
        except CommitFailedError:
            continue
        except (DeltaError, OSError) as error:
            # Of a table that another one has made meanwhile: there is no table to compare with.
            if table is None and isinstance(error, DeltaError) and _exists(uri):
                continue
            if not is_local(uri):  # a store's refusal is translated by who asked it
                raise
            raise SluicegateError(
                "cannot write the discards of a table",
                where=_error_place(uri),
                cause=" ".join(COLOURS.sub("", str(error)).split()),
                hint="check the permissions and free space of this folder, then try again",
            ) from error
    raise SluicegateError(
        "other programs keep discarding records of the table at the same time",
        where=_error_place(uri),
        hint="nothing was written: try again",
    )


def _exists(uri: str) -> bool:
    try:
        return tables.delta_table(uri) is not None
    except NotADeltaTable:
        return False


def _error_place(uri: str) -> Where:
    return Where(table=uri.rstrip("/").rsplit("/", 1)[-1], file=uri)
