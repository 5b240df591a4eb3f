"""Conversion of DataFrame column expressions to SQL, where the SQL means the same."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from sluicegate.spark_sql.identifiers import literal
from sluicegate.spark_sql.tokens import QuerySyntax
from sluicegate.tools.migrate.column_sql import ColumnSql, of_text
from sluicegate.tools.migrate.queries import NotTaken
from sluicegate.tools.scaffold.naming import ident

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Eq: "=", ast.NotEq: "<>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.BitAnd: "AND", ast.BitOr: "OR", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%",
}  # fmt: skip

# Functions that have the same name in SQL and take columns only; and those that have another.
_SAME = {
    "sum", "avg", "min", "max", "count", "upper", "lower", "trim", "coalesce", "to_date", "to_timestamp", "round",
    "current_timestamp", "current_date", "length", "concat", "abs", "year", "month", "dayofmonth", "hour", "md5",
    "sha2", "size", "stddev", "variance", "from_unixtime", "date_trunc", "greatest", "least",
}  # fmt: skip
_OTHER = {"mean": "avg", "countDistinct": "count", "count_distinct": "count"}

# The functions that are understood.
KNOWN = {*_SAME, *_OTHER, "col", "column", "lit", "expr", "input_file_name"}

# Positions of arguments that are strings in SQL too; elsewhere a string names a column.
_TEXTS = {"to_date": {1}, "to_timestamp": {1}, "date_trunc": {0}, "from_unixtime": {1}}

_METADATA = {"_metadata.file_path": "source_file", "_metadata.file_modification_time": "_file_modification_time"}


class ExpressionConverter:
    """Converts expressions.

    Args:
        functions: names of the module, with the function of ``pyspark.sql.functions`` that each is.
        constants: names of the module, with their constant values.
        modules: names of the module ``pyspark.sql.functions`` itself.
    """

    def __init__(self, functions: Mapping[str, str], constants: Mapping[str, Any], modules: Collection[str]) -> None:
        self.functions, self.constants, self.modules = functions, constants, modules

    def column(self, node: ast.expr) -> ColumnSql:
        """Convert an expression to SQL.

        Raises:
            NotTaken: it is not a known one.
        """
        if isinstance(node, ast.Constant):
            return ColumnSql(self._value(node.value, node))
        if isinstance(node, ast.Name) and node.id in self.constants:
            return ColumnSql(self._value(self.constants[node.id], node))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._binary(node.left, node.ops[0], node.comparators[0])
        if isinstance(node, ast.BinOp):
            return self._binary(node.left, node.op, node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return ColumnSql(f"NOT ({self._inner(node.operand)})", bound=False)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self._refusal(node)

    def _operand(self, node: ast.expr) -> str:
        """Convert an expression beside an operator or a predicate."""
        return self.column(node).operand

    def _inner(self, node: ast.expr) -> str:
        """Convert an expression between parentheses or commas, where an alias has no effect."""
        return self.column(node).text

    @staticmethod
    def _refusal(node: ast.expr) -> NotTaken:
        return NotTaken(f"{ast.unparse(node)[:60]} is not supported by the importer", node.lineno)

    def _value(self, value: Any, node: ast.expr) -> str:
        if isinstance(value, bool) or value is None:
            return {True: "true", False: "false", None: "NULL"}[value]
        if isinstance(value, int):
            return repr(value)
        if isinstance(value, float) and isfinite(value):
            return f"{value!r}D"  # without the D, SQL takes it for a decimal
        if isinstance(value, str):
            return literal(value)
        raise self._refusal(node)

    def _binary(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> ColumnSql:
        sign = _OPERATORS.get(type(operator))
        if sign is None:
            raise self._refusal(left)
        if sign == "+" and any(isinstance(self._constant(side), str) for side in (left, right)):
            raise self._refusal(left)
        return ColumnSql(f"({self._operand(left)} {sign} {self._operand(right)})")

    def _call(self, node: ast.Call) -> ColumnSql:
        name = self._function(node)
        if node.keywords:
            raise self._refusal(node)
        if name:
            return self._convert_function(name, node)
        if not isinstance(node.func, ast.Attribute):
            raise self._refusal(node)
        return self._convert_method(node.func, node)

    def _function(self, node: ast.Call) -> str:
        """Return the name of the pyspark function of a call, empty if it calls a method."""
        if isinstance(node.func, ast.Name):
            return self.functions.get(node.func.id, "")
        match node.func:
            case ast.Attribute(ast.Name(base), name) if base in self.modules:
                return name
        return ""

    def _convert_function(self, name: str, node: ast.Call) -> ColumnSql:
        text = self._first_text(node)
        if name in ("col", "column") and text is not None:
            return ColumnSql(self._column(text, node))
        if name == "lit" and len(node.args) == 1:
            return self.column(node.args[0])
        if name == "expr" and text is not None:
            return self._of_text(text, node)
        if name == "input_file_name":
            return ColumnSql("source_file")
        if name == "count" and text == "*":
            return ColumnSql("count(*)")
        return self._call_of(name, node)

    def _call_of(self, name: str, node: ast.Call) -> ColumnSql:
        """Convert a function whose arguments are columns."""
        if name not in _SAME | _OTHER.keys() or (name == "trim" and len(node.args) > 1):
            raise self._refusal(node)
        arguments = ", ".join(self._argument(name, n, argument) for n, argument in enumerate(node.args))
        if "istinct" in name:
            arguments = f"DISTINCT {arguments}"
        return ColumnSql(f"{_OTHER.get(name, name)}({arguments})")

    @staticmethod
    def _of_text(text: str, node: ast.expr) -> ColumnSql:
        try:
            return of_text(text)
        except QuerySyntax as error:
            raise NotTaken(error.message, node.lineno) from None

    def _argument(self, name: str, place: int, node: ast.expr) -> str:
        value = self._constant(node)
        if isinstance(value, str) and place not in _TEXTS.get(name, ()):
            return self._column(value, node)
        return self._inner(node)

    def _constant(self, node: ast.expr) -> Any:
        """Return the value of a literal or of a name bound to one, else None."""
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        if isinstance(node, ast.Constant):
            return node.value
        return None

    def _first_text(self, node: ast.Call) -> str | None:
        """Return the first argument of a call if it is a text, else None."""
        value = next(map(self._constant, node.args), None)
        if isinstance(value, str):
            return value
        return None

    @staticmethod
    def _column(name: str, node: ast.expr) -> str:
        return _METADATA.get(name) or column_path(name, node.lineno)

    def _convert_method(self, method: ast.Attribute, node: ast.Call) -> ColumnSql:
        column = self.column(method.value)
        value = None
        if len(node.args) == 1:
            value = self._constant(node.args[0])
        match method.attr:
            case "alias" if isinstance(value, str):
                return replace(column, name=ident(value))
            case "cast" if isinstance(value, str) and value.replace("_", "").isalnum() and not column.name:
                return ColumnSql(f"CAST({column.text} AS {value.upper()})")
        return ColumnSql(f"{column.operand} {self._predicate(method.attr, value, node)}", bound=False)

    def _predicate(self, method: str, value: Any, node: ast.Call) -> str:
        """Return the SQL that follows the operand of a predicate method; ``value`` is its only constant argument."""
        match method:
            case "isNull" if not node.args:
                return "IS NULL"
            case "isNotNull" if not node.args:
                return "IS NOT NULL"
            case "isin":
                return f"IN ({', '.join(self._inner(argument) for argument in node.args)})"
            case "like" | "rlike" if isinstance(value, str):
                return f"{method.upper()} {literal(value)}"
            case "between" if len(node.args) == 2:
                return f"BETWEEN {self._operand(node.args[0])} AND {self._operand(node.args[1])}"
        raise self._refusal(node)


def column_path(name: str, line: int) -> str:
    """Return the SQL of a column, a field of one, or all fields, as ``payload.*``.

    Raises:
        NotTaken: parts of it are quoted.
    """
    if "`" in name:
        raise NotTaken(f"the column {name} is not supported by the importer: write its name without backticks", line)
    *parents, last = name.split(".")
    if last != "*":
        last = ident(last)
    return ".".join([*map(ident, parents), last])
