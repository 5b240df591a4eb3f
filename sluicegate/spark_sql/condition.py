"""Condition of an expectation: SQL that is true, false or NULL for one row."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.conversion import casts
from sluicegate.spark_sql.tokens import QuerySyntax, Tokens, parse_sql


@dataclass(frozen=True)
class Condition:
    """A boolean expression over the columns of one row.

    Attributes:
        text: the expression as written, without comments around it.
        columns: the columns that it refers to, each once, in order of appearance.
        tried: the expression with ``TRY_CAST`` for ``CAST``: NULL instead of an error for a value that does not cast.
        unique: the columns of ``unique(a, b)``, the only condition over several rows; else none.
    """

    text: str
    columns: list[str]
    tried: str
    unique: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse a condition.

        Raises:
            QuerySyntax: it is not one expression over the columns of one row.
        """
        tokens = Tokens(text)
        if not len(tokens):
            raise QuerySyntax("the condition is empty", 1)
        if unique := _unique_columns(tokens):
            text = tokens.compose([], compact=True)
            return cls(text=text, columns=list(unique), tried=text, unique=unique)
        tree = _tree(tokens)
        for node in tree.walk():
            if fault := _fault(node):
                raise QuerySyntax(fault, 1)
        for objection in casts.spelling_objections(tokens):
            raise objection
        columns = dict.fromkeys(column.parts[0].name for column in tree.find_all(exp.Column, bfs=False))
        return cls(
            text=tokens.compose([], compact=True),
            columns=list(columns),
            tried=tokens.compose(casts.try_cast_spans(casts.find(tokens)), compact=True),
        )


def _unique_columns(tokens: Tokens) -> tuple[str, ...]:
    """Columns of ``unique(a, b)``; none for any other condition. It is ours, not Spark's, so its tokens are parsed.

    Raises:
        QuerySyntax: its arguments are not columns, or it is a part of a condition.
    """
    calls = [i for i in range(len(tokens)) if tokens.word(i) == "UNIQUE" and tokens.is_type(i + 1, TokenType.L_PAREN)]
    if not calls:
        return ()
    names, commas = range(2, len(tokens) - 1, 2), range(3, len(tokens) - 1, 2)
    whole = calls == [0] and len(tokens) % 2 == 0 and tokens.closing_index(1) == len(tokens) - 1
    listed = len(names) > 0 and all(tokens.is_type(i, TokenType.COMMA) for i in commas)
    if not (whole and listed and all(_is_name(tokens, i) for i in names)):
        raise QuerySyntax(
            "unique(…) must be the whole condition and takes column names, for example unique(device_id, time)", 1
        )
    return tuple(tokens.name(i) for i in names)


def _is_name(tokens: Tokens, index: int) -> bool:
    return tokens.is_type(index, TokenType.IDENTIFIER) or tokens.word(index).isidentifier()


def _tree(tokens: Tokens) -> exp.Expr:
    text = tokens.compose([], compact=True)
    try:
        select = parse_sql(f"SELECT ({text})")
    except QuerySyntax as error:
        raise QuerySyntax(f"Spark cannot parse the condition {text}: {error.message}", 1) from None
    # A text that closes our parenthesis, such as `a) OR (b`, is more than one expression.
    inner = None
    if isinstance(select, exp.Select) and len(select.expressions) == 1:
        inner = select.expressions[0]
    if not isinstance(inner, exp.Paren) or any(value and part != "expressions" for part, value in select.args.items()):
        raise QuerySyntax(f"{text} is not a single condition", 1)
    if isinstance(inner.this, (exp.Literal, exp.Binary)) and not isinstance(inner.this, _BOOLEAN):
        raise QuerySyntax(f"{text} is not a condition: write one that is true or false, for example value > 0", 1)
    return inner


_BOOLEAN = (exp.Predicate, exp.Connector, exp.Dot, exp.Escape)


def _fault(node: exp.Expr) -> str:
    if isinstance(node, exp.Query):
        return "a condition cannot contain a subquery: join in the query, and test the joined column"
    many = isinstance(node, exp.Any) and not isinstance(node.parent, (exp.Like, exp.ILike))  # LIKE ANY is of one row
    if many or isinstance(node, exp.Window) or query_shape.aggregate(node):
        return "a condition evaluates one row: aggregate and window functions are not allowed"
    if isinstance(node, (exp.UDTF, exp.Explode)):
        return "a condition returns one value for each row, but this function returns several rows"
    if isinstance(node, (exp.Placeholder, exp.Parameter)):
        return "a condition cannot contain parameter markers: write the value"
    if isinstance(node, exp.Star):
        return "list the columns that the condition tests"
    if isinstance(node, exp.Alias):
        return "a condition cannot have AS: its name is that of the expectation"
    return ""
