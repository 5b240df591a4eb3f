"""Kinds of values in a query, as far as they are known for certain, and operations that no value of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from sluicegate.spark_sql.analysis.plain_tree import SqlMistake
from sluicegate.spark_sql.analysis.signatures import KINDS, REFUSED, UNKNOWN, result_of

KindOf = Callable[[exp.Expr], str]
"""Gives the kind of a part of an expression."""

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "=", exp.NEQ: "=", exp.NullSafeEQ: "=", exp.GT: "<", exp.GTE: "<", exp.LT: "<", exp.LTE: "<",
    exp.And: "and", exp.Or: "and", exp.DPipe: "||", exp.Like: "like", exp.RegexpLike: "rlike",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "&", exp.BitwiseXor: "&", exp.Not: "not", exp.Neg: "negative",
}  # fmt: skip

# Parts of a tree that must be true or false.
_CONDITIONS: dict[type[exp.Expr], str] = {
    exp.Where: "this", exp.Having: "this", exp.Qualify: "this", exp.Join: "on", exp.If: "this",
}  # fmt: skip

# Types of literals, as people know them.
_OF_LITERALS = {"text": "string", "whole": "int", "fraction": "decimal"}

# What has the kind of its one argument, whatever it does with the rows.
_TRANSPARENT = (exp.Paren, exp.Alias, exp.Window, exp.Filter)


def stored_kind(kind: str) -> str:
    """Return the kind of a column that holds values of a kind."""
    return _OF_LITERALS.get(kind, kind)


def kind_of_type(text: str) -> str:
    """Return the kind of a type in a definition; ``UNKNOWN`` for a nested type, or one with a length."""
    name = text.lower().strip()
    if name.startswith(("decimal(", "dec(", "numeric(")) or name in ("dec", "numeric"):
        return "decimal"
    name = {"integer": "int", "byte": "tinyint", "short": "smallint", "long": "bigint", "real": "float",
            "timestamp_ltz": "timestamp"}.get(name, name)  # fmt: skip
    return name if name in KINDS else UNKNOWN


def result_kind(node: exp.Expr, kind_of: KindOf) -> str:
    """Return the kind of an expression other than a column.

    Args:
        node: the expression.
        kind_of: function that returns the kind of each part.
    """
    if isinstance(node, _TRANSPARENT):
        return kind_of(node.this)
    if isinstance(node, exp.Literal):
        return _literal_kind(node)
    if isinstance(node, exp.Boolean):
        return "boolean"
    if isinstance(node, exp.Cast):
        return kind_of_type(node.to.sql("spark"))
    if node.find(exp.Column) is None:
        return UNKNOWN  # Spark computes it beforehand, and may then take it for a literal
    results = {result_of(form, list(map(kind_of, operands))) for form, operands in _operations(node)}
    if len(results) != 1 or REFUSED in results:
        return UNKNOWN
    return results.pop()


def _literal_kind(node: exp.Literal) -> str:
    if node.is_string:
        return "text"
    if node.name.isdecimal():
        return "whole" if int(node.name) < 2**31 else UNKNOWN
    return "fraction" if node.name.replace(".", "", 1).isdecimal() else UNKNOWN


def type_mistakes(node: exp.Expr, kind_of: KindOf) -> Iterator[SqlMistake]:
    """Yield the mistakes of a node by the kinds of its parts, for which Spark has no such operation.

    Args:
        node: the node.
        kind_of: function that returns the kind of an expression.
    """
    operations = [(form, [*map(kind_of, operands)]) for form, operands in _operations(node)]
    if operations and all(result_of(form, kinds) == REFUSED for form, kinds in operations):
        described = " and ".join(map(_describe, operations[0][1]))
        yield SqlMistake("type-mismatch", node, f"Spark cannot compute {_text(node)} from {described}")
    if _is_condition(node) and result_of("condition", [kind_of(node)]) == REFUSED:
        message = f"a condition must be true or false, but {_text(node)} is {_describe(kind_of(node))}"
        yield SqlMistake("type-mismatch", node, message)


def _operations(node: exp.Expr) -> Iterator[tuple[str, list[exp.Expr]]]:
    """Yield the forms and arguments of a node's operations, of which Spark must accept one."""
    if type(node) in _OPERATORS:
        yield _OPERATORS[type(node)], [operand for operand in (node.this, node.args.get("expression")) if operand]
    elif isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        yield node.name.lower(), node.expressions
    elif isinstance(node, exp.Cast):
        kind = kind_of_type(node.to.sql("spark"))
        yield f"cast {kind}", [node.this]
        yield f"try_cast {kind}", [node.this]


def _is_condition(node: exp.Expr) -> bool:
    """Return whether an expression decides about rows or between values."""
    parent = node.parent
    if isinstance(parent, exp.If) and isinstance(parent.parent, exp.Case) and parent.parent.this is not None:
        return False  # it is compared with that
    return parent is not None and node.arg_key == _CONDITIONS.get(type(parent))


def _text(node: exp.Expr) -> str:
    return node.sql("spark", normalize_functions=False)


def _describe(kind: str) -> str:
    name = stored_kind(kind).upper()
    return f"{'an' if name.startswith('I') else 'a'} {name}"
