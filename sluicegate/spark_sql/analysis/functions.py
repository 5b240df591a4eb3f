"""Calls of functions in a query that Spark does not know, or not with so many arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from sluicegate.spark_sql.analysis.plain_tree import SqlMistake, parse_plainly
from sluicegate.spark_sql.analysis.signatures import signatures
from sluicegate.spark_sql.tokens import QuerySyntax
from sluicegate.suggestions import suggest_name

# Arguments that stand for any number of them: columns of a star, and names, which may leave others out.
_OPEN_ARGUMENTS = (exp.Star, exp.Distinct, exp.Kwarg)


def function_mistakes(tree: exp.Expr) -> Iterator[SqlMistake]:
    """Yield the mistakes of all calls in a tree of ``parse_plainly``.

    Table functions, functions of a catalog (with a name before them) and hints are left out.
    """
    for call in tree.find_all(exp.Anonymous):
        of_catalog = isinstance(call.parent, (exp.Table, exp.Dot))
        if not of_catalog and call.find_ancestor(exp.Hint) is None:
            yield from _call_mistakes(call)


def argument_mistakes(text: str) -> list[SqlMistake]:
    """Return the calls with a wrong number of arguments in a text that sqlglot refuses, perhaps for one of them."""
    try:
        tree = parse_plainly(text)
    except QuerySyntax:
        return []
    return [mistake for mistake in function_mistakes(tree) if mistake.code == "wrong-arguments"]


def _call_mistakes(call: exp.Anonymous) -> Iterator[SqlMistake]:
    name, known = call.name.lower(), signatures().counts
    if name not in known:
        yield SqlMistake("unknown-function", call, f"unknown function {call.name}", suggest_name(name, known))
        return
    if any(isinstance(argument, _OPEN_ARGUMENTS) or argument.is_star for argument in call.expressions):
        return
    counts, count = known[name], len(call.expressions)
    if counts and count not in counts:
        message = f"the number of arguments of {call.name} must be {_range_text(counts)}, not {count}"
        yield SqlMistake("wrong-arguments", call, message)


def _range_text(counts: Sequence[int]) -> str:
    """Format numbers of arguments, more than two that follow one another by their ends."""
    first, last = counts[0], counts[-1]
    if isinstance(counts, range):
        return f"at least {first}"
    if len(counts) > 2 and last - first < len(counts):
        return f"{first} to {last}"
    return " or ".join(map(str, counts))
