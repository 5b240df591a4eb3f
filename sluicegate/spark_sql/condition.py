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
        columns = [node for node in tree.find_all(exp.Column, bfs=False) if not query_shape.is_of_lambda(node)]
        return cls(
            text=tokens.compose([], compact=True),
            columns=list(dict.fromkeys(column.parts[0].name for column in columns)),
            tried=tokens.compose(casts.try_cast_spans(casts.find(tokens)), compact=True),
        )


def _unique_columns(tokens: Tokens) -> tuple[str, ...]:
    """Return the columns of ``unique(a, b)``, empty for any other condition.

    Spark does not have ``unique``, so its tokens are parsed here.

    Raises:
        QuerySyntax: its arguments are not columns, or it is a part of a condition.
    """
    calls = [i for i in range(len(tokens)) if tokens.word(i) == "UNIQUE" and tokens.is_type(i + 1, TokenType.L_PAREN)]
    if not calls:
        return ()
    last = len(tokens) - 1
    items = tokens.split_list(2, last)
    whole = calls == [0] and tokens.closing_index(1) == last
    if not (whole and items and all(_is_name(tokens, *item) for item in items)):
        raise QuerySyntax(
            "unique(…) must be the whole condition and takes column names, for example unique(device_id, time)", 1
        )
    return tuple(tokens.name(first) for first, _ in items)


def _is_name(tokens: Tokens, first: int, end: int) -> bool:
    quoted = tokens.is_type(first, TokenType.IDENTIFIER)
    return end - first == 1 and (quoted or tokens.word(first).isidentifier())


def _tree(tokens: Tokens) -> exp.Expr:
    text = tokens.compose([], compact=True)
    try:
        select = parse_sql(f"SELECT ({text})")
    except QuerySyntax as error:
        raise QuerySyntax(f"Spark cannot parse the condition {text}: {error.message}", 1) from None
    # A text that closes our parenthesis, such as `a) OR (b`, is more than one expression.
    if [*query_shape.clauses(select)] != ["expressions"] or [*map(type, select.expressions)] != [exp.Paren]:
        raise QuerySyntax(f"{text} is not a single condition", 1)
    inner: exp.Paren = select.expressions[0]
    if isinstance(inner.this, (exp.Literal, exp.Binary)) and not isinstance(inner.this, _BOOLEAN):
        raise QuerySyntax(f"{text} is not a condition: write one that is true or false, for example value > 0", 1)
    return inner


_BOOLEAN = (exp.Predicate, exp.Connector, exp.Dot, exp.Escape)


_FAULTS: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    ((exp.Query,), "a condition cannot contain a subquery: join in the query, and test the joined column"),
    ((exp.UDTF, exp.Explode), "a condition returns one value for each row, but this function returns several rows"),
    ((exp.Placeholder, exp.Parameter), "a condition cannot contain parameter markers: write the value"),
    ((exp.Star,), "list the columns that the condition tests"),
    ((exp.Alias,), "a condition cannot have AS: its name is that of the expectation"),
)


def _fault(node: exp.Expr) -> str:
    many = isinstance(node, exp.Any) and not isinstance(node.parent, (exp.Like, exp.ILike))  # LIKE ANY is of one row
    if many or isinstance(node, exp.Window) or query_shape.aggregate(node):
        return "a condition evaluates one row: aggregate and window functions are not allowed"
    return next((fault for kinds, fault in _FAULTS if isinstance(node, kinds)), "")
