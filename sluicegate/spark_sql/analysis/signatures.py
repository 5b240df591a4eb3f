"""What Spark's own registry and analysis say about functions and operators, read from ``signatures.tsv``.

``scripts/signatures.py`` asks Spark and writes the table. Of each function it has the numbers of arguments that Spark
accepts; of a function with one argument, an operator or a cast, the kind of the result by the kinds of its arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("signatures.tsv")

KINDS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "binary", "date",
    "timestamp", "timestamp_ntz",
)  # fmt: skip
"""Kinds of values that have a type of this name; a decimal is of any precision."""

LITERALS = ("text", "whole", "fraction")
"""Kinds of literals, which Spark converts more freely than columns: strings, integers and decimal numbers."""

ALL_KINDS = (*KINDS, *LITERALS)

UNKNOWN, REFUSED = "?", "-"


@dataclass(frozen=True)
class Signatures:
    """Functions and operators of Spark.

    Attributes:
        counts: numbers of arguments that each function takes, by its lower-case name; empty for any.
        bare: functions that a name without parentheses calls, if there is no such column.
        results: kind of the result by the form and the kinds of its arguments; ``REFUSED`` if Spark refuses them.
    """

    counts: dict[str, Sequence[int]]
    bare: frozenset[str]
    results: dict[tuple[str, ...], str]


@cache
def signatures() -> Signatures:
    """Return the table; see ``scripts/signatures.py``."""
    rows = [line.split("\t") for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
    functions = [row[1:] for row in rows if row[0] == "function"]
    counts = {name: _counts(text) for name, text, _ in functions}
    results = dict(entry for row in rows if row[0] != "function" for entry in _row_results(row))
    return Signatures(counts, frozenset(name for name, _, called in functions if called), results)


def result_of(form: str, kinds: Sequence[str]) -> str:
    """Return the kind of a result; ``UNKNOWN`` for an argument of unknown kind, or a form without a recorded result."""
    return signatures().results.get((form, *kinds), UNKNOWN)


def _counts(text: str) -> Sequence[int]:
    counts = [*map(int, text.rstrip("+").split())]
    return range(counts[0], sys.maxsize) if text.endswith("+") else counts


def _row_results(row: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the results of a row: a form, the kinds of its arguments but the last, and the result for each of these."""
    _, form, *before, results = row
    for kind, result in zip(ALL_KINDS, results.split(" "), strict=True):
        if result != UNKNOWN:
            yield (form, *before, kind), result
