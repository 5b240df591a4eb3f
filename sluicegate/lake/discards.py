"""Discards: records in quarantine that a person has decided about, each with who did, when, and a note.

They stand in a table of their own, ``_state/{table}_discarded``, by the identity of the records, and the quarantine
stays as it is. So a run reads and writes nothing more, no commit of a run has one of ours to lose against, and a
quarantine that is rebuilt, record by record under the same identities, finds its discards in place.

A discard counts for a row that breaks no other rules than those which it broke when it was discarded: one that breaks
another rule as well is news. Its file counts, too, since a table that is moved away and made again gives its numbers to
other records. What counts is computed when it is read, from both tables, and written nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate import _faults
from sluicegate.errors import NotADeltaTable, SluicegateError, Where
from sluicegate.lake import log, tables
from sluicegate.lake.layout import is_local
from sluicegate.storage.store_errors import COLOURS

ATTEMPTS = 10
"""Attempts at a commit beside others that discard records of the same table."""

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


def quarantined(quarantine: DeltaTable) -> pa.Table:
    """Rows of a quarantine: ``KEYS`` with NULL as -1 or an empty text, ``rules`` as one text, and ``WHEN``.

    Texts are dictionaries, so that of a million rows there are a few numbers each.
    """
    there = {field.name for field in quarantine.schema().fields}
    names = [name for name in (*KEYS, RULES, WHEN) if name in there]
    batches = tables.dataset(quarantine).to_batches(names, batch_readahead=1, fragment_readahead=1)
    more = [WHEN] if WHEN in there else []
    parts = [keyed(batch, RULES, more) for batch in batches]
    return pa.concat_tables(parts).unify_dictionaries() if parts else quarantined_at(None)


def quarantined_at(quarantine: DeltaTable | None) -> pa.Table:
    """The same of a quarantine that may not be there yet."""
    if quarantine is None:
        return keyed(pa.schema([(WHEN, pa.timestamp("us", "UTC"))]).empty_table(), RULES, [WHEN])
    return quarantined(quarantine)


def on_record(discards: DeltaTable | None) -> pa.Table:
    """All discards (schema ``DISCARDS``), the first that was made first; also those that count for no row now."""
    if discards is None:
        return DISCARDS.empty_table()
    found = tables.dataset(discards).to_table(DISCARDS.names).cast(DISCARDS)
    return found.sort_by([("discarded_at", "ascending"), ("discard", "ascending")])


def keyed(rows: Any, rules: str, more: Sequence[str] = ()) -> pa.Table:
    """Rows in the form in which they are compared, as ``quarantined`` gives them.

    Args:
        rows: an Arrow batch or table with ``KEYS``, of which some may be missing.
        rules: its column with the rules.
        more: further columns to keep.
    """
    there = {*rows.schema.names}
    columns: dict[str, Any] = {}
    for name in NUMBERS:
        given = rows[name].cast(pa.int64()) if name in there else pa.nulls(rows.num_rows, pa.int64())
        columns[name] = pc.fill_null(given, -1)
    for name in _NAMES:
        given = rows[name].cast(pa.string()) if name in there else pa.nulls(rows.num_rows, pa.string())
        columns[name] = _dictionary(pc.fill_null(given, ""))
    given = rows[rules] if rules in there else pa.nulls(rows.num_rows, pa.list_(pa.string()))
    columns["rules"] = _dictionary(pc.fill_null(pc.binary_join(given.cast(pa.list_(pa.string())), _BETWEEN), ""))
    return pa.table(columns | {name: rows[name] for name in more})


def _dictionary(texts: Any) -> Any:
    return texts.cast(pa.dictionary(pa.int32(), pa.string()))


def rules_of(text: str) -> tuple[str, ...]:
    """Rules of a text of several, as ``quarantined`` has them."""
    return tuple(text.split(_BETWEEN)) if text else ()


def counting(rows: pa.Table, discards: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Rows of a quarantine that are discarded, each with the discard that counts for it, the newest one.

    Args:
        rows: rows of ``quarantined``.
        discards: rows of ``on_record``.

    Returns:
        places among the rows, in their order, and for each the place among the discards.
    """
    nothing = pa.array([], pa.int64())
    if not (rows.num_rows and discards.num_rows):
        return nothing, nothing
    made = keyed(discards, "rules")
    pairs = _near(rows, made, "row").join(_near(made, rows, "discard"), [*KEYS], join_type="inner", right_suffix="_by")
    # Few sets of rules, however many rows: whether one is part of another is asked once for two of them.
    sets = pairs.group_by(["rules", "rules_by"]).aggregate([]).to_pylist()
    parts = [one for one in sets if {*rules_of(one["rules"])} <= {*rules_of(one["rules_by"])}]
    if not parts:
        return nothing, nothing
    pairs = pairs.join(pa.Table.from_pylist(parts), ["rules", "rules_by"], join_type="left semi")
    found = pairs.group_by("row").aggregate([("discard", "max")]).sort_by([("row", "ascending")])
    return found["row"].combine_chunks(), found["discard_max"].combine_chunks()


def _near(rows: pa.Table, others: pa.Table, place: str) -> pa.Table:
    """Rows whose ledger batch others have, too, with their places, and texts as Arrow joins them."""
    placed = rows.select([*KEYS, "rules"]).append_column(place, pa.array(range(rows.num_rows), pa.int64()))
    near = placed.filter(pc.is_in(placed["_chunk"], value_set=pc.unique(others["_chunk"])))
    plain = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in near.schema]
    return near.cast(pa.schema(plain))


@dataclass(frozen=True)
class Discarded:
    """What one discard did.

    Attributes:
        id: its id: the DAG run's, or a command's.
        time: when it was (UTC).
        by: who discarded.
        note: why.
        rules: rules that its records broke.
        records: rows of the quarantine that it counts for now.
    """

    id: str
    time: datetime
    by: str
    note: str
    rules: tuple[str, ...]
    records: int


def listed(rows: pa.Table, discards: pa.Table) -> list[Discarded]:
    """Discards on record, the newest first; one that counts for no row now has 0 records.

    Args:
        rows: rows of ``quarantined``.
        discards: rows of ``on_record``.
    """
    if not discards.num_rows:
        return []
    _, of = counting(rows, discards)
    now = pa.array(range(discards.num_rows), pa.int64())
    found = discards.select(["discard", "discarded_at", "discarded_by", "note"])
    found = found.append_column("rules", pc.binary_join(discards["rules"], _BETWEEN))
    found = found.append_column("place", now).join(_counted(of), "place", join_type="left outer")
    said = found.group_by(["discard", "discarded_at", "discarded_by", "note", "rules"]).aggregate([("records", "sum")])
    made: dict[str, Discarded] = {}
    for one in said.to_pylist():
        before = made.get(one["discard"])
        rules = sorted({*rules_of(one["rules"]), *(before.rules if before else ())})
        records = (one["records_sum"] or 0) + (before.records if before else 0)
        made[one["discard"]] = Discarded(
            one["discard"], one["discarded_at"], one["discarded_by"] or "", one["note"] or "", tuple(rules), records
        )
    return sorted(made.values(), key=lambda one: (one.time, one.id), reverse=True)


def _counted(places: pa.Array) -> pa.Table:
    return (
        pa.table({"place": places})
        .group_by("place")
        .aggregate([([], "count_all")])
        .rename_columns(["place", "records"])
    )


def by_rule(rows: pa.Table) -> dict[str, int]:
    """Number of rows of a quarantine that broke each rule, most first."""
    counted = rows.group_by("rules").aggregate([([], "count_all")]).to_pylist()
    found: dict[str, int] = {}
    for one in counted:
        for rule in rules_of(one["rules"]):
            found[rule] = found.get(rule, 0) + one["count_all"]
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


def discarded_rows(quarantine: DeltaTable, discards: DeltaTable | None) -> int:
    """Number of rows of a quarantine that are discarded; nothing is read where there is no discard."""
    if discards is None or not tables.rows(discards):
        return 0
    return len(counting(quarantined(quarantine), on_record(discards))[0])


def waiting(rows: pa.Table, discards: pa.Table) -> pa.Table:
    """Those rows of a quarantine that are not discarded."""
    done, _ = counting(rows, discards)
    return rows.filter(pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int64()), value_set=done)))


def breaks(rows: pa.Table, rules: Sequence[str]) -> Any:
    """Whether each row broke one of some rules; all do if none is named. ``rules`` of the rows is a text or a list."""
    if not rules:
        return pa.repeat(pa.scalar(True), rows.num_rows)
    texts = rows["rules"]
    texts = pc.binary_join(texts, _BETWEEN) if pa.types.is_list(texts.type) else texts.cast(pa.string())
    known = [text for text in pc.unique(texts).to_pylist() if {*rules_of(text)} & {*rules}]
    return pc.is_in(texts, value_set=pa.array(known, pa.string()))


def broke(rows: pa.Table, rules: Sequence[str]) -> pa.Table:
    """Those rows that broke one of some rules; all if none is named."""
    return rows.filter(breaks(rows, rules))


def also_in(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Those rows that are among others, by identity, file and rules."""
    found = _near(rows, others, "row").join(_near(others, rows, "other"), [*KEYS, "rules"], join_type="left semi")
    return rows.take(found["row"].combine_chunks().sort())


def add(uri: str, rows: pa.Table, discard: str, by: str, note: str) -> int:
    """Discards rows of a quarantine, in one commit, but for those that are discarded already.

    Args:
        uri: the table of discards, which is made if there is none.
        rows: rows of ``quarantined``.
        discard: id of this discard.
        by: who discards them.
        note: why.

    Returns:
        how many were discarded now.

    Raises:
        SluicegateError: others discard records of the table again and again, or its folder cannot be written.
    """

    def change(there: DeltaTable | None) -> tuple[pa.Table, int]:
        left = waiting(rows, on_record(there))
        return _made(left, discard, by, note), left.num_rows

    return _committed(uri, change, {"discard": discard, "by": by}, mode="append")


def take_back(uri: str, chosen: Callable[[pa.Table], Any], by: str) -> int:
    """Takes discards back, in one commit.

    Args:
        uri: the table of discards.
        chosen: says of each of some discards (schema ``DISCARDS``) whether it is taken back.
        by: who takes them back.

    Returns:
        how many rows were taken back.

    Raises:
        SluicegateError: others discard records of the table again and again, or its folder cannot be written.
    """

    def change(there: DeltaTable | None) -> tuple[pa.Table, int]:
        every = on_record(there)
        gone = chosen(every)
        return every.filter(pc.invert(gone)), pc.sum(gone).as_py() or 0

    return _committed(uri, change, {"taken_back_by": by}, mode="overwrite")


def _made(rows: pa.Table, discard: str, by: str, note: str) -> pa.Table:
    plain = _near(rows, rows, "_row")
    columns = {name: pc.if_else(pc.equal(plain[name], -1), None, plain[name]) for name in NUMBERS}
    columns |= {name: pc.if_else(pc.equal(plain[name], ""), None, plain[name]) for name in _NAMES}
    columns["rules"] = pc.split_pattern(plain["rules"], _BETWEEN)
    said = {"discard": discard, "discarded_at": datetime.now(UTC), "discarded_by": by, "note": note}
    columns |= {
        name: pa.repeat(pa.scalar(value, DISCARDS.field(name).type), rows.num_rows) for name, value in said.items()
    }
    return pa.table(columns).select(DISCARDS.names).cast(DISCARDS)


def _committed(
    uri: str, change: Callable[[DeltaTable | None], tuple[pa.Table, int]], facts: dict[str, Any], *, mode: str
) -> int:
    """Commits a change as exactly the version after the one that it is made for, however often others come before."""
    for _ in range(ATTEMPTS):
        there = tables.delta_table(uri)
        rows, count = change(there)
        if not count:
            return 0
        said = {"userMetadata": json.dumps({log.METADATA: {"step": "discard", "rows": count, **facts}})}
        properties = CommitProperties(max_commit_retries=0, custom_metadata=said)
        _faults.point("discards.before_commit")
        try:
            how = {"mode": "error" if there is None else mode, "commit_properties": properties}
            tables.write(uri if there is None else there, rows, **how)
            return count
        except CommitFailedError:
            continue
        except (DeltaError, OSError) as error:
            # Of a table that another one has made meanwhile: there is no table to compare with.
            if there is None and isinstance(error, DeltaError) and _is_there(uri):
                continue
            if not is_local(uri):  # a store's refusal is translated by who asked it
                raise
            raise SluicegateError(
                "the discards of a table could not be written",
                where=_where(uri),
                cause=" ".join(COLOURS.sub("", str(error)).split()),
                hint="look at the rights of this folder and its space, and try it again",
            ) from error
    raise SluicegateError(
        "others discard records of the table at the same time, again and again",
        where=_where(uri),
        hint="nothing was written: try it again",
    )


def _is_there(uri: str) -> bool:
    try:
        return tables.delta_table(uri) is not None
    except NotADeltaTable:
        return False


def _where(uri: str) -> Where:
    return Where(table=uri.rstrip("/").rsplit("/", 1)[-1], file=uri)
