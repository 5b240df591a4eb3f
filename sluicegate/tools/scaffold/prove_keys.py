"""Proof that columns are unique in all rows of all files. A key that only the first rows show would lose rows.

Of a key that is unique but for few rows, these are compared: do they say the same, or something else?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sluicegate.console import inflect
from sluicegate.tools.scaffold.all_rows import AllRows, trimmed
from sluicegate.tools.scaffold.column import NewColumn
from sluicegate.tools.scaffold.nearly import has_few_exceptions


@dataclass(frozen=True)
class KeyProof:
    """Result for candidate keys, over all rows.

    Attributes:
        keys: names of the columns.
        why_not: why they are no keys; empty if they are never NULL, and no two different rows have the same.
        rows: rows that were read.
        surplus: rows with the same keys as an earlier one, which would be set aside as duplicates.
        unfit: rows with a value that does not fit its type, which are quarantined for that, whatever the keys.
        place: where the first row is that was compared with an earlier one: the first that differs, if one does.
        near: whether they would be keys but for few rows.
    """

    keys: list[str]
    why_not: str
    rows: int
    surplus: int = 0
    unfit: int = 0
    place: str = ""
    near: bool = False


def prove(rows: AllRows, columns: Sequence[NewColumn], candidates: Sequence[Sequence[str]]) -> list[KeyProof]:
    """Proofs of which candidates are keys.

    Values are compared as silver will have them, by their types: ``1`` and ``01`` are one BIGINT.

    Args:
        rows: all rows of the files.
        columns: the columns of the table.
        candidates: sets of column names that may be keys.

    Returns:
        a proof for each candidate; only the first if that one is proved.
    """
    proofs = _proofs(rows, columns, candidates[:1])
    if proofs and not proofs[0].why_not:
        return proofs
    # The others cost as much again, and are rarely needed.
    return proofs + _proofs(rows, columns, candidates[1:])


def _proofs(rows: AllRows, columns: Sequence[NewColumn], candidates: Sequence[Sequence[str]]) -> list[KeyProof]:
    by_name = {column.name: column for column in columns}
    proofs = [_proof(rows, [by_name[name] for name in candidate]) for candidate in candidates]
    near = next((proof for proof in proofs if proof.near and proof.surplus), None)
    if near is not None and all(proof.why_not for proof in proofs):
        compared = _compare_repeated_rows(rows, columns, [by_name[name] for name in near.keys], near)
        proofs[proofs.index(near)] = compared
    return proofs


def _proof(rows: AllRows, keys: Sequence[NewColumn]) -> KeyProof:
    names = [column.name for column in keys]
    reason = rows.unread or next((rows.differing_types[c.field] for c in keys if c.field in rows.differing_types), "")
    if reason:
        return KeyProof(names, f"not proved: {reason}", rows.count)
    key = ", ".join(map(_value, keys))
    has_misfit = " OR ".join(f"({_has_text(column)} AND {_value(column)} IS NULL)" for column in keys)
    is_full = " AND ".join(f"{_value(column)} IS NOT NULL" for column in keys)
    ((full, unfit, different),) = rows.query(
        f"SELECT count(*) FILTER ({is_full}), count(*) FILTER ({has_misfit}),"
        f" count(DISTINCT ({key},)) FILTER ({is_full}) FROM rows"
    )
    empty, surplus = rows.count - full - unfit, full - different
    near = has_few_exceptions(empty + unfit + surplus, rows.count)
    reason = ""
    if surplus:
        reason = f"not unique: {surplus:,} of {rows.count:,} rows would be set aside as duplicates"
    if empty or (unfit and not has_few_exceptions(unfit, rows.count)):
        reason, surplus = f"not proved: {empty + unfit:,} of {rows.count:,} rows have no value there that fits", 0
    return KeyProof(names, reason, rows.count, surplus, unfit, near=near)


def _compare_repeated_rows(
    rows: AllRows, columns: Sequence[NewColumn], keys: Sequence[NewColumn], proof: KeyProof
) -> KeyProof:
    """Proof for keys that several rows have, once these rows are compared: copies of one row, or different ones."""
    key = ", ".join(map(_value, keys))
    is_full = " AND ".join(f"{_value(column)} IS NOT NULL" for column in keys)
    whole = ", ".join(f"c{column.place}" for column in columns)
    ((copies, first_copy, others, first_other),) = rows.query(
        f"WITH good AS (SELECT id, ({key},) AS k, ({whole},) AS whole FROM rows WHERE {is_full}),"
        " kept AS (SELECT k, min(id) AS first, arg_min(whole, id) AS kept FROM good GROUP BY k HAVING count(*) > 1)"
        " SELECT count(*) FILTER (whole = kept), min(id) FILTER (whole = kept),"
        " count(*) FILTER (whole <> kept), min(id) FILTER (whole <> kept)"
        " FROM good JOIN kept USING (k) WHERE id > first"
    )
    if others:
        differ = inflect(others, "differs", "differ")
        place = rows.place(first_other)
        sentence = f"though {others:,} of them {differ} from the row that is kept, as does {place}"
        return replace(proof, why_not=f"{proof.why_not}, {sentence}", place=place)
    if not copies:
        return replace(proof, why_not="", surplus=0)
    place = rows.place(first_copy)
    if any(column.is_id_like for column in keys):
        return replace(proof, why_not="", surplus=copies, place=place)
    # Nothing names these rows: equal ones may be two things that happened.
    sentence = f"all of them copies of the row that is kept, as is {place}"
    return replace(proof, why_not=f"{proof.why_not}, {sentence}", place=place)


def _value(column: NewColumn) -> str:
    """DuckDB's value of a column as silver has it; NULL for none, and for a text that does not fit."""
    text, value = f"c{column.place}", column.inferred_type.value
    if value == "t":
        return f"nullif({text}, '')"
    return f"CASE WHEN {_has_text(column)} THEN list_transform([{trimmed(text)}], lambda t: {value})[1] END"


def _has_text(column: NewColumn) -> str:
    """Whether a column has more than a word for nothing, for DuckDB."""
    nothing = ", ".join(f"'{word}'" for word in ("", *column.inferred_type.nothing))
    if column.inferred_type.value == "t":
        return f"coalesce(c{column.place} <> '', false)"
    return f"coalesce(trim(c{column.place}) NOT IN ({nothing}), false)"
