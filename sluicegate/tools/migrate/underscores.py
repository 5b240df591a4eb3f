"""Renaming of columns that begin with an underscore, which is reserved for the engine: they lose it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens
from sluicegate.tools.migrate.model import ChangeFlow, Dataset, ParsedSource
from sluicegate.tools.migrate.rewriting import tables_of

_TYPES = (TokenType.VAR, TokenType.IDENTIFIER)


def rename(source: ParsedSource) -> None:
    """Rename columns that begin with an underscore, where they are made and where they are read."""
    new_names = choose_names([dataset.query for dataset in source.datasets if dataset.query is not None])
    computed = {dataset.name for dataset in source.datasets if dataset.query is not None}
    for dataset in source.datasets:
        if dataset.query is not None:
            _rename_in_dataset(dataset, new_names, computed)
    for changes in source.changes:
        if changes.source in computed:
            _rename_in_changes(changes, new_names)
    for name, other in new_names.items():
        reason = f"it is renamed to {other}, because names that start with _ are reserved"
        line = next(d.query_line for d in source.datasets if re.search(rf"\b{other}\b", d.query or "", re.IGNORECASE))
        source.leave_harmless(line, f"the column {name}", reason)


def _rename_in_dataset(dataset: Dataset, new_names: Mapping[str, str], computed: Collection[str]) -> None:
    """Rename columns in a dataset; ``computed`` are the datasets with a query."""
    # A table of files may have a field of that name.
    reads_files = not set(computed).issuperset(tables_of(dataset.query or ""))
    dataset.query = rename_columns(dataset.query or "", new_names, only_made=reads_files)
    dataset.schema = rename_columns(dataset.schema, new_names)
    dataset.rules = [replace(rule, condition=rename_columns(rule.condition, new_names)) for rule in dataset.rules]


def _rename_in_changes(changes: ChangeFlow, new_names: Mapping[str, str]) -> None:
    for field, value in changes.fields.items():
        if isinstance(value, list):
            changes.fields[field] = [new_names.get(str(column).lower(), column) for column in value]
        elif isinstance(value, str):
            changes.fields[field] = rename_columns(value, new_names)


def choose_names(queries: Collection[str]) -> dict[str, str]:
    """Choose new names for the columns with a leading ``_`` that queries compute, by lower-case name."""
    computed = dict.fromkeys(name for text in queries for name, _, is_made in _name_tokens(text) if is_made)
    taken = {name for text in queries for name, _, _ in _name_tokens(text)}
    new_names: dict[str, str] = {}
    for name in computed:
        plain = name.lstrip("_")
        while plain in taken or plain in RESERVED or plain in new_names.values():
            plain += "_"
        if plain.strip("_").isidentifier() and name not in RESERVED:
            new_names[name] = plain
    return new_names


def rename_columns(text: str, new_names: Mapping[str, str], *, only_made: bool = False) -> str:
    """Rename columns in a query or condition.

    Args:
        text: a query, or a condition.
        new_names: new names by the lower-case names in the text.
        only_made: rename only columns that the query computes: those that it reads are another table's.
    """
    if not new_names or not text:
        return text
    try:
        tokens = Tokens(text)
    except QuerySyntax:
        return text
    spans = [
        Span(index, index, new_names[name])
        for name, index, is_made in _name_tokens(text)
        if name in new_names and (is_made or not only_made)
    ]
    return tokens.compose(spans)


def _name_tokens(text: str) -> Iterator[tuple[str, int, bool]]:
    """Yield the names of a text in lower case, each with its token, and whether it follows AS and begins with ``_``."""
    try:
        tokens = Tokens(text)
    except QuerySyntax:
        return
    for index in range(len(tokens)):
        if tokens.is_type(index, *_TYPES):
            name = tokens.name(index).lower()
            yield name, index, name.startswith("_") and tokens.word(index - 1) == "AS"
