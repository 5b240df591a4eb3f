"""Near misses of a new table, in a sentence each: what is so in nearly all rows, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.console import inflect, quantity
from sluicegate.tools.scaffold.column import NewColumn
from sluicegate.tools.scaffold.naming import comment_text
from sluicegate.tools.scaffold.prove_keys import KeyProof
from sluicegate.tools.scaffold.suggest import has_mail_address
from sluicegate.tools.scaffold.table import NewTable

_SHOWN, _LONGEST = 40, 500
"""Most characters of a value, and of a sentence, that are shown."""


def sentences(table: NewTable, *, examples: bool) -> list[str]:
    """Sentences about a table.

    Args:
        table: the table.
        examples: whether to quote a value of the files, for a person who has them; never one of personal data.
    """
    texts = (*_types(table, examples=examples), *_keys(table), *_later_fields(table))
    return [comment_text(text, _LONGEST) for text in texts]


def _types(table: NewTable, *, examples: bool) -> Iterator[str]:
    for column in table.columns:
        if misfits := column.inferred_type.misfits:
            fitting = misfits.among - misfits.count
            example = misfits.place
            if examples and not _is_personal_misfit(table, column):
                example = f'"{comment_text(misfits.example, _SHOWN)}" in {misfits.place}'
            other = inflect(misfits.count, "one", f"{misfits.count:,}")
            kind = column.inferred_type.kind
            yield (
                f"{comment_text(column.field)}: {fitting:,} of {misfits.among:,} values are {kind}; the other {other}"
                f" ({inflect(misfits.count, '', 'as ')}{example}): {_disposition(table, column, misfits.count)}"
            )


def _is_personal_misfit(table: NewTable, column: NewColumn) -> bool:
    """Whether a value that does not fit a column's type may be personal data."""
    misfits = column.inferred_type.misfits
    return column.name in table.guess.pii or (misfits is not None and has_mail_address(misfits.example))


def _disposition(table: NewTable, column: NewColumn, count: int) -> str:
    """What becomes of the values of a column that do not fit."""
    if text_column := table.text_column(column):
        return f"NULL, with the text in {text_column}"
    rows = inflect(count, "its record goes", "their records go")
    return f"{rows} to {table.name}_quarantine ({table.name}.sql says how to keep text)"


def _keys(table: NewTable) -> Iterator[str]:
    proof, missed = table.guess.proof, table.guess.missed
    if proof and proof.surplus:
        copies = f"{quantity(proof.surplus, 'row')} {inflect(proof.surplus, 'is a copy', 'are copies')}"
        yield (
            f"{_names(proof)}: {copies} of an earlier row (as {proof.place}): set aside as"
            f" {inflect(proof.surplus, 'a duplicate', 'duplicates')}, and counted"
        )
    if missed:
        yield f"{_names(missed)}: nearly keys, but {missed.why_not}; pipeline.yaml has them as a comment"


def _later_fields(table: NewTable) -> Iterator[str]:
    if table.later_fields:
        names = ", ".join(comment_text(name, _SHOWN) for name in table.later_fields)
        yield f"fields that only later rows have, in bronze and not in {table.name}.sql: {names}"


def _names(proof: KeyProof) -> str:
    return comment_text(", ".join(proof.keys))
