"""Suggestions from a table's columns: keys, event time, personal data, measures."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from operator import itemgetter
from typing import TYPE_CHECKING

from sluicegate.tools.scaffold.column import NewColumn
from sluicegate.tools.scaffold.naming import words
from sluicegate.tools.scaffold.nearly import has_few_exceptions
from sluicegate.tools.scaffold.readings import NUMBERS

if TYPE_CHECKING:
    from sluicegate.tools.scaffold.prove_keys import KeyProof


FEWEST = 10
"""Rows below which uniqueness proves nothing, unless a column's name says the same."""

SERIES = 100
"""Rows of different days from which on these are taken for a series, of which a day is the key."""

MOST_CANDIDATES = 3
"""Most candidate keys that are tried on all rows."""
_WHEN = ("time", "timestamp", "ts", "datetime", "date", "day", "at", "on", "created", "ordered", "event")
_LATEST = {"updated", "modified", "changed", "version", "revision", "sequence"}
_PERSONAL = {
    "email", "mail", "phone", "mobile", "telephone", "address", "street", "birthday", "birthdate", "birth", "dob",
    "ssn", "passport", "iban", "surname", "firstname", "lastname", "fullname", "username", "ip", "gender",
}  # fmt: skip
_NAMED = {"name", "first", "last", "full", "middle", "patient", "customer", "user", "person", "contact", "family",
          "given", "employee", "student", "client", "member", "maiden"}  # fmt: skip
_SUMMED = {
    "amount", "quantity", "qty", "total", "cost", "costs", "revenue", "sales", "count", "units", "value", "paid", "net",
    "gross", "duration", "minutes", "seconds", "hours", "sold", "bought", "tax", "discount", "fee",
}  # fmt: skip
_NEVER_SUMMED = {
    "year", "month", "day", "hour", "lat", "lon", "lng", "latitude", "longitude", "zip", "version", "revision", "rank",
    "sequence", "port", "level", "status", "type", "week", "quarter",
}  # fmt: skip


@dataclass(frozen=True)
class Guess:
    """Suggestions for a table.

    Attributes:
        keys: columns that are unique in all rows of all files; empty if none are.
        by_name: whether the name of the one key column suggests it too.
        sequence_by: column by which the latest of several records with the same keys wins.
        event_time: column with the event time.
        pii: columns with personal data.
        positive: columns of amounts that are never below zero.
        rows: rows sampled.
        no_keys: columns that are unique in the sample and are no keys all the same, with the reason.
        proof: proof of the keys over all rows, if there are keys.
        missed: proof of the likeliest columns that are no keys, if that is so for few rows only.
    """

    keys: list[str]
    by_name: bool
    sequence_by: str | None
    event_time: str | None
    pii: list[str]
    positive: list[str]
    rows: int
    no_keys: dict[tuple[str, ...], str] = dataclasses.field(default_factory=dict)
    proof: KeyProof | None = None
    missed: KeyProof | None = None


def guess(columns: Sequence[NewColumn], rows: int, proofs: Sequence[KeyProof]) -> Guess:
    """Suggestions for a table from its columns.

    Args:
        columns: its columns.
        rows: number of rows sampled.
        proofs: results over all rows for the likeliest keys.
    """
    unnamed = "no name says that it identifies a row, though it is unique in these files"
    proofs = [
        dataclasses.replace(proof, why_not=proof.why_not or unnamed) if not _is_named(proof.keys, columns) else proof
        for proof in proofs
    ]
    proof = next((proof for proof in proofs if not proof.why_not), None)
    keys = []
    if proof is not None:
        keys = proof.keys
    event_time = _event_time(columns)
    return Guess(
        keys=keys,
        by_name=_is_id(keys, columns),
        sequence_by=_sequence(columns, keys, event_time),
        event_time=event_time,
        pii=[column.name for column in columns if _is_personal(column)],
        positive=[column.name for column in columns if _is_amount(column)][:2],
        rows=rows,
        no_keys={tuple(refused.keys): refused.why_not for refused in _likelier_proofs(proof, proofs)},
        proof=proof,
        missed=next((proof for proof in proofs if proof.near and proof.why_not), None),
    )


def _is_id(keys: Sequence[str], columns: Sequence[NewColumn]) -> bool:
    """Whether there is one key column, and its name says so."""
    return len(keys) == 1 and any(column.name == keys[0] and column.is_id_like for column in columns)


def _sequence(columns: Sequence[NewColumn], keys: Sequence[str], event_time: str | None) -> str | None:
    """Column by which the latest record of a key wins: the time of a change, if it is not the event's own."""
    if not keys:
        return None
    for column in columns:
        if column.is_full and column.is_time and _LATEST & column.words and column.name not in keys:
            if column.name == event_time:
                return None
            return column.name
    return None


def _likelier_proofs(proof: KeyProof | None, proofs: Sequence[KeyProof]) -> Sequence[KeyProof]:
    """Proofs before the one that holds; the first if none holds."""
    if proof is None:
        return proofs[:1]
    return proofs[: proofs.index(proof)]


def candidates(table: str, columns: Sequence[NewColumn], rows: int) -> list[list[str]]:
    """Candidate keys by names and sampled rows, the likeliest first, and at last one that no name speaks for."""
    different = _drop_copies(columns)
    named = itertools.chain(
        _single_keys(table, different, rows), _series_day(different, rows), _named_sets(different, rows)
    )
    names = dict.fromkeys(tuple(column.name for column in key) for key in named)
    chosen = [*itertools.islice(names, MOST_CANDIDATES)]
    first = different[:1]
    if rows >= FEWEST and not chosen and first[0].is_full and first[0].inferred_type.kind == "STRING":
        chosen += [(column.name,) for column in first if _is_unique(first)]
    return [list(key) for key in chosen]


def _single_keys(table: str, columns: Sequence[NewColumn], rows: int) -> Iterator[tuple[NewColumn, ...]]:
    """Columns that identify by their names; a likely name makes up for few rows, and for few copies."""
    named = [(_likelihood(column, table, columns), column) for column in columns if column.is_id_like]
    for likelihood, column in sorted(named, key=itemgetter(0)):
        likely = likelihood is not _Likelihood.ANY
        enough = likely or (rows >= FEWEST and column.is_id and column.is_full)
        unique = enough and _is_unique([column])
        if unique or (likely and _is_nearly_unique(column)):
            yield (column,)


def _named_sets(columns: Sequence[NewColumn], rows: int) -> Iterator[tuple[NewColumn, ...]]:
    """Sets of two and three columns that identify by their names, or are times."""
    if rows < FEWEST:
        return
    ids = [column for column in columns if column.is_full and column.is_id]
    likely = [*ids, *(column for column in columns if column.is_full and column.is_time)][:10]
    sets = itertools.chain(itertools.combinations(likely, 2), itertools.combinations(likely, 3))
    yield from (chosen for chosen in sets if chosen[0] in ids and _is_unique(chosen))


def _series_day(columns: Sequence[NewColumn], rows: int) -> Sequence[tuple[NewColumn, ...]]:
    """The day of a long series, if each row has another one."""
    days = [column for column in columns if column.inferred_type.kind == "DATE" and column.is_full]
    if rows >= SERIES and len(days) == 1 and _is_unique(days):
        return [(days[0],)]
    return []


def _is_named(keys: Sequence[str], columns: Sequence[NewColumn]) -> bool:
    """Whether the names of some columns say that they identify a row, or a day of a series."""
    return all(column.is_id_like or column.is_time for column in columns if column.name in keys)


def _drop_copies(columns: Sequence[NewColumn]) -> Sequence[NewColumn]:
    """Columns without the rows that are equal to an earlier one in each column, if these are few."""
    rows = list(zip(*[column.values for column in columns], strict=True))
    different = list(dict.fromkeys(rows))
    if not has_few_exceptions(len(rows) - len(different), len(rows)):
        return columns
    values = zip(*different, strict=True)
    return [
        dataclasses.replace(column, values=[*column_values])
        for column, column_values in zip(columns, values, strict=True)
    ]


def _is_nearly_unique(column: NewColumn) -> bool:
    """Whether the column differs in all rows but few; these may have no value."""
    different = {value for value in column.values if value is not None}
    return has_few_exceptions(len(column.values) - len(different), len(column.values))


class _Likelihood(IntEnum):
    """How likely a column is the key by its name, the likeliest first."""

    ID = auto()
    ID_OF_TABLE = auto()
    FIRST_COLUMN = auto()
    ANY = auto()


def _likelihood(column: NewColumn, table: str, columns: Sequence[NewColumn]) -> _Likelihood:
    name = "_".join(words(column.field))
    if name in ("id", "uuid", "guid"):
        return _Likelihood.ID
    singular = table.rstrip("s")
    if name in (f"{singular}_id", f"{table}_id", f"id_{singular}"):
        return _Likelihood.ID_OF_TABLE
    if column is columns[0]:
        return _Likelihood.FIRST_COLUMN
    return _Likelihood.ANY


def _is_unique(columns: Sequence[NewColumn]) -> bool:
    rows = list(zip(*[column.values for column in columns], strict=True))
    return len(set(rows)) == len(rows)


def _event_time(columns: Sequence[NewColumn]) -> str | None:
    """Event-time column: the first of the likeliest name, never a birthday."""
    times = [c for c in columns if c.is_time and c.is_full and not {"birth", "birthday", "birthdate", "dob"} & c.words]
    times.sort(key=lambda c: (bool(_LATEST & c.words), c.inferred_type.kind != "TIMESTAMP", not set(_WHEN) & c.words))
    if times:
        return times[0].name
    return None


def _is_personal(column: NewColumn) -> bool:
    names = column.words
    if _PERSONAL & names or (names and names <= _NAMED and names & {"name", "patient", "person"}):
        return True
    texts = [value for value in column.values if isinstance(value, str)]
    without_address = sum(not has_mail_address(text) for text in texts)
    return bool(texts) and (not without_address or has_few_exceptions(without_address, len(texts)))


def has_mail_address(text: str) -> bool:
    """Whether a text may have an address of mail in it."""
    return "@" in text and "." in text.rpartition("@")[2]


def is_measure(column: NewColumn) -> bool:
    """Whether a sum or an average of the column may make sense."""
    return column.inferred_type.kind in NUMBERS and not column.is_id_like and not _NEVER_SUMMED & column.words


def is_summed(column: NewColumn) -> bool:
    """Whether a sum makes sense, by the column's name; otherwise an average."""
    names = column.words
    return is_measure(column) and bool(_SUMMED & names) and not {"unit", "rate", "avg", "average"} & names


def _is_amount(column: NewColumn) -> bool:
    if not (column.is_full and is_measure(column) and (_SUMMED | {"price"}) & column.words):
        return False
    return all(isinstance(value, str) and not value.startswith("-") for value in column.values)


def group_column(columns: Sequence[NewColumn], guessed: Guess) -> NewColumn | None:
    """Text column with the fewest values, to group by, if it has few."""
    groups = [(len(set(column.values)), column) for column in columns if _can_group(column, guessed)]
    small = [(count, column) for count, column in groups if 1 < count <= max(20, len(column.values) // 5)]
    if not small:
        return None
    return min(small, key=itemgetter(0))[1]


def _can_group(column: NewColumn, guessed: Guess) -> bool:
    """Whether rows may be grouped by a column: a text or a truth value, not personal and not the only key."""
    if column.inferred_type.kind not in ("STRING", "BOOLEAN") or not column.is_full or column.name in guessed.pii:
        return False
    return column.name not in guessed.keys or len(guessed.keys) > 1
