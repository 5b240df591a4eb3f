"""Suggestions from a table's columns: keys, event time, personal data, measures."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluicegate.tools.scaffold.column import _ID, Column
from sluicegate.tools.scaffold.infer_types import NUMBERS, words
from sluicegate.tools.scaffold.nearly import few

if TYPE_CHECKING:
    from sluicegate.tools.scaffold.prove_keys import Proof


FEWEST = 10
"""Rows below which uniqueness proves nothing, unless a column's name says the same."""

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
    proof: Proof | None = None
    missed: Proof | None = None


def guess(columns: Sequence[Column], rows: int, proofs: Sequence[Proof]) -> Guess:
    """Suggestions for a table from its columns.

    Args:
        columns: its columns.
        rows: number of rows sampled.
        proofs: results over all rows for the likeliest keys.
    """
    proof = next((one for one in proofs if not one.why_not), None)
    keys = proof.keys if proof else []
    event_time = _event_time(columns)
    latest = next((c for c in columns if c.full and c.is_time and _LATEST & c.words and c.name not in keys), None)
    return Guess(
        keys=keys,
        by_name=len(keys) == 1 and any(column.name == keys[0] and column.id_like for column in columns),
        sequence_by=latest.name if keys and latest and latest.name != event_time else None,
        event_time=event_time,
        pii=[column.name for column in columns if _is_personal(column)],
        positive=[column.name for column in columns if _is_amount(column)][:2],
        rows=rows,
        no_keys={tuple(one.keys): one.why_not for one in proofs[: proofs.index(proof) if proof else 1]},
        proof=proof,
        missed=next((one for one in proofs if one.near and one.why_not), None),
    )


def candidates(table: str, columns: Sequence[Column], rows: int) -> list[list[str]]:
    """Candidate keys by names and sampled rows, the likeliest first."""
    found = dict.fromkeys(tuple(column.name for column in some) for some in _candidates(table, columns, rows))
    return [list(names) for names in itertools.islice(found, MOST_CANDIDATES)]


def _candidates(table: str, columns: Sequence[Column], rows: int) -> Iterator[tuple[Column, ...]]:
    columns = _without_copies(columns)
    usable = [c for c in columns if c.full and c.found.kind in ("BIGINT", "STRING", "DATE", "TIMESTAMP", "DECIMAL")]
    for column in sorted((c for c in columns if c.id_like), key=lambda c: _rank(c, table, columns)):
        named = _rank(column, table, columns) < 3
        if (column.full and _unique([column]) and (rows >= FEWEST or named)) or (named and _nearly_unique(column)):
            yield (column,)
    if rows < FEWEST:
        return
    if usable and usable[0] is columns[0] and usable[0].found.kind == "STRING" and _unique(usable[:1]):
        yield (usable[0],)
    yield from (some for some in _sets(usable) if _unique(some))


def _without_copies(columns: Sequence[Column]) -> Sequence[Column]:
    """Columns without the rows that are equal to an earlier one in each column, if these are few."""
    rows = list(zip(*[column.values for column in columns], strict=True))
    different = list(dict.fromkeys(rows))
    if not few(len(rows) - len(different), len(rows)):
        return columns
    values = zip(*different, strict=True)
    return [dataclasses.replace(column, values=[*some]) for column, some in zip(columns, values, strict=True)]


def _nearly_unique(column: Column) -> bool:
    """Whether the column differs in all rows but few; these may have no value."""
    different = {value for value in column.values if value is not None}
    return few(len(column.values) - len(different), len(column.values))


def _rank(column: Column, table: str, columns: Sequence[Column]) -> int:
    """Rank of a name as a key: id, then the table's id, then the first column, then any."""
    name = "_".join(words(column.field))
    if name in ("id", "uuid", "guid"):
        return 0
    singular = table.rstrip("s")
    if name in (f"{singular}_id", f"{table}_id", f"id_{singular}"):
        return 1
    return 2 if column is columns[0] else 3


def _sets(usable: Sequence[Column]) -> Iterator[tuple[Column, ...]]:
    """Sets of two and three columns, one of which identifies or is a time."""
    some = [c for c in usable if _ID & c.words or c.is_time or c.found.kind == "STRING"]
    some = sorted(some, key=lambda c: (not _ID & c.words, not c.is_time))[:10]
    for size in (2, 3):
        for found in itertools.combinations(some, size):
            if any(_ID & column.words or column.is_time for column in found):
                yield found


def _unique(columns: Sequence[Column]) -> bool:
    rows = list(zip(*[column.values for column in columns], strict=True))
    return len(set(rows)) == len(rows)


def _event_time(columns: Sequence[Column]) -> str | None:
    """Event-time column: the first of the likeliest name, never a birthday."""
    times = [c for c in columns if c.is_time and c.full and not {"birth", "birthday", "birthdate", "dob"} & c.words]
    times.sort(key=lambda c: (bool(_LATEST & c.words), c.found.kind != "TIMESTAMP", not set(_WHEN) & c.words))
    return times[0].name if times else None


def _is_personal(column: Column) -> bool:
    names = column.words
    if _PERSONAL & names or (names and names <= _NAMED and names & {"name", "patient", "person"}):
        return True
    seen = [value for value in column.values if isinstance(value, str)]
    others = sum(not has_mail_address(text) for text in seen)
    return bool(seen) and (not others or few(others, len(seen)))


def has_mail_address(text: str) -> bool:
    """Whether a text may have an address of mail in it."""
    return "@" in text and "." in text.rpartition("@")[2]


def is_measure(column: Column) -> bool:
    """Whether a sum or an average of the column may make sense."""
    return column.found.kind in NUMBERS and not column.id_like and not _NEVER_SUMMED & column.words


def is_summed(column: Column) -> bool:
    """Whether a sum makes sense, by the column's name; otherwise an average."""
    names = column.words
    return is_measure(column) and bool(_SUMMED & names) and not {"unit", "rate", "avg", "average"} & names


def _is_amount(column: Column) -> bool:
    if not (column.full and is_measure(column) and (_SUMMED | {"price"}) & column.words):
        return False
    return all(isinstance(value, str) and not value.startswith("-") for value in column.values)


def group_column(columns: Sequence[Column], guessed: Guess) -> Column | None:
    """Text column with the fewest values, to group by, if it has few."""
    texts = [c for c in columns if c.found.kind in ("STRING", "BOOLEAN") and c.name not in guessed.pii and c.full]
    texts = [c for c in texts if c.name not in guessed.keys or len(guessed.keys) > 1]
    counted = sorted(((len(set(c.values)), n, c) for n, c in enumerate(texts)), key=lambda one: one[:2])
    few = [c for count, _, c in counted if 1 < count <= max(20, len(c.values) // 5)]
    return few[0] if few else None
