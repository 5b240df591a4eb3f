"""Parser and checks of a COPY INTO's SELECT: expressions over the fields of the copied files. No Spark.

``SELECT CAST(a AS INT) AS id, upper(b) AS b, _metadata.file_name AS file FROM source``. Spark runs the user's own
text, expression by expression; only expressions over one record are accepted, since bronze keeps every record.
https://docs.databricks.com/aws/en/sql/language-manual/delta-copy-into
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.schema.columns import is_reserved
from sluicegate.spark_sql import query_shape
from sluicegate.spark_sql.clauses import select_list
from sluicegate.spark_sql.conversion import casts as sql_casts
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import QuerySyntax, Tokens, parse_sql
from sluicegate.spark_sql.types import REFUSED

# Table name that the FROM of a copy uses for the files.
SOURCE = "source"

# Fields of ``_metadata`` that a copy may use.
ABOUT = {"file_path", "file_name", "file_modification_time"}

# Functions that generate rows or run arbitrary code.
_REFUSED = {
    "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple",
    "variant_explode", "variant_explode_outer", "java_method", "reflect", "try_reflect",
}  # fmt: skip


@dataclass(frozen=True)
class Output:
    """One expression of the SELECT list.

    Attributes:
        name: name of its column; empty if it has none; ``*`` for a star.
        text: the expression for Spark, with TRY_CAST for CAST.
        fields: fields of the files that it refers to.
        failures: for each of its casts, an expression that is true for a value that is not null and does not cast.
    """

    name: str
    text: str
    fields: tuple[str, ...]
    failures: tuple[str, ...]

    @property
    def is_star(self) -> bool:
        """Whether it is ``*``, all fields of the files."""
        return self.name == "*"


@dataclass(frozen=True)
class Select:
    """A copy's SELECT.

    Attributes:
        alias: table alias by which its expressions qualify fields.
        outputs: its expressions in order.
    """

    alias: str
    outputs: tuple[Output, ...]

    @classmethod
    def parse(cls, text: str) -> Select:
        """Parse and check the text of a SELECT.

        Raises:
            QuerySyntax: it is not ``SELECT expressions FROM source`` with expressions over one record's fields.
        """
        tokens = Tokens(text)
        query = Query.parse(text)
        tree = parse_sql(tokens.compose([]))
        if not isinstance(tree, exp.Select):
            raise QuerySyntax("a copy takes one SELECT", 1)
        alias = _alias(query, tree)
        _, *nodes = tree.walk()
        for fault in filter(None, map(_fault, nodes)):
            raise QuerySyntax(fault, 1)
        for objection in sql_casts.spelling_objections(tokens):
            raise objection
        first, end = select_list(tokens)
        casts = sql_casts.find(tokens)
        for objection in sql_casts.hidden_cast_objections(tokens, casts, first, end):
            raise objection
        tried = sql_casts.try_cast_spans(casts)
        outputs = []
        commas = [index for index in tokens.top_level(first, end) if tokens.is_type(index, TokenType.COMMA)]
        starts, stops = [first, *(comma + 1 for comma in commas)], [*commas, end]
        for start, stop, (name, node) in zip(starts, stops, query_shape.outputs(tree), strict=True):
            casts_of_output = [cast for cast in casts if start <= cast.index < stop]
            failures = sql_casts.failures(tokens, casts_of_output, tried, first, end)
            whole = tokens.compose(tried, start, stop, compact=True)
            outputs.append(Output("*" if name is None else name, whole, _fields(node, alias), tuple(failures)))
        return cls(alias, tuple(outputs))

    def names(self, columns: Sequence[str], fields: Sequence[str]) -> list[str]:
        """Return output column names for files with these fields.

        Args:
            columns: names to give them, in order; none: their own.
            fields: fields of the files.

        Raises:
            QuerySyntax: a column has no name, two have the same, or ``columns`` has another number of names.
        """
        of_outputs = [name for o in self.outputs for name in (fields if o.is_star else [o.name])]
        if columns and len(columns) != len(of_outputs):
            raise QuerySyntax(f"it returns {len(of_outputs)} columns, but --columns lists {len(columns)}", 1)
        column_names = list(columns) or of_outputs
        if fault := names_fault(column_names):
            raise QuerySyntax(fault, 1)
        return column_names


def names_fault(names: Sequence[str]) -> str:
    """Return the first fault in a copy's column names as a sentence, empty if there is none."""
    lower = [name.lower() for name in names]
    for name in names:
        if not name:
            return "an expression has no column name: add AS name"
        if is_reserved(name):
            return f"{name} is a reserved name: rename it with AS"
        if REFUSED & set(name):
            return f"invalid column name {name!r}: Delta does not allow blanks or any of ,;{{}}()="
        if lower.count(name.lower()) > 1:
            return f"duplicate column name {name}"
    return ""


def _alias(query: Query, tree: exp.Select) -> str:
    """Return the table alias of the files in the query.

    Raises:
        QuerySyntax: it is more than ``SELECT … FROM source``.
    """
    clauses = [part for part, value in tree.args.items() if value and part not in ("expressions", "from_")]
    if clauses:
        clause = clauses[0].strip("_").upper()
        raise QuerySyntax(f"a copy is SELECT expressions FROM {SOURCE}: {clause} is only possible in silver", 1)
    table = None
    if tree.args.get("from_"):
        table = tree.args["from_"].this
    if isinstance(table, exp.Table):
        parts = set(table.args) - {"this", "alias"}
    else:
        parts = {"this"}
    if table is None or any(table.args[part] for part in parts) or query.stream or query.tables != [SOURCE]:
        raise QuerySyntax(f"a copy reads from the files: write FROM {SOURCE}", 1)
    alias = table.args.get("alias")
    if alias and alias.columns:
        raise QuerySyntax("rename columns in the SELECT list", 1)
    if alias:
        return str(alias.name)
    return SOURCE


def _fault(node: exp.Expr) -> str:
    if isinstance(node, exp.Query):
        return "a copy cannot contain a subquery: join in silver"
    if isinstance(node, exp.Window) or query_shape.aggregate(node):
        return "a copy stores single records: aggregate and window functions are only possible in gold"
    name = query_shape.function_name(node)
    if isinstance(node, (exp.UDTF, exp.Explode, exp.Inline, exp.Stack)) or name.lower() in _REFUSED:
        return f"{name or 'this function'} cannot be used in a copy, which returns one row for each record"
    if isinstance(node, exp.Aliases):
        return "use one name for each expression"
    if isinstance(node, exp.Star) and any(node.args.values()):
        return "list the columns to copy: * copies all of them"
    return ""


def _fields(node: exp.Expr, alias: str) -> tuple[str, ...]:
    """Return fields of the files that an expression refers to.

    Raises:
        QuerySyntax: it refers to a field that ``_metadata`` does not have.
    """
    names: list[str] = []
    for column in node.find_all(exp.Column, bfs=False):
        parts = [part.name for part in column.parts if not isinstance(part, exp.Star)]
        if len(parts) > 1 and parts[0].lower() == alias.lower():
            parts = parts[1:]
        if parts[0] == "_metadata":
            if len(parts) != 2 or parts[1] not in ABOUT:
                raise QuerySyntax(f"_metadata has only {', '.join(sorted(ABOUT))}", 1)
        elif not (column.is_star or query_shape.is_of_lambda(column)):
            names.append(parts[0])
    return tuple(dict.fromkeys(names))
