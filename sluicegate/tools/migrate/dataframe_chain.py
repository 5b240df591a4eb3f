"""Conversion of a chain of DataFrame methods to one SELECT that means the same; refused where none does.

Known are reading a table, a stream, files or ``spark.sql``, followed by ``select``, ``selectExpr``, ``filter``,
``where``, ``withColumn``, ``drop``, ``join``, ``groupBy`` with ``agg`` or ``count``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens
from sluicegate.tools.migrate.auto_loader import delta_option
from sluicegate.tools.migrate.column_expressions import ExpressionConverter, column_path
from sluicegate.tools.migrate.column_sql import ColumnSql, of_text
from sluicegate.tools.migrate.model import FILES, Files, Remark
from sluicegate.tools.migrate.name_bindings import NameBindings, constant
from sluicegate.tools.migrate.queries import NotTaken, address, convert_query
from sluicegate.tools.scaffold.naming import ident

_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "leftouter": "LEFT JOIN", "left_outer": "LEFT JOIN"}
_READERS = ("json", "csv", "parquet", "orc", "text")

# How many arguments methods of a reader have.
_ARGUMENTS = {"format": 1, "option": 2, "schema": 1}

# How many arguments methods of a DataFrame may have; of the others any number.
_STEPS = {"filter": (1,), "where": (1,), "withColumn": (2,), "join": (2, 3)}


@dataclass
class Chain:
    """Chain as far as it is read.

    Attributes:
        names: bindings of the module.
        sql: its SELECT; None for files that are read as they are.
        files: the files that it reads.
        streams: whether it reads a stream.
        remarks: what it does not take over.
    """

    names: NameBindings
    files: Files | None = None
    streams: bool = False
    line: int = 1
    remarks: list[Remark] = field(default_factory=list)
    _from: str = ""
    _columns: list[str] | None = None
    _reads_files: bool = False
    _whole: str = ""
    _items: list[str] = field(default_factory=lambda: ["*"])
    _made: set[str] = field(default_factory=set)
    _where: list[str] = field(default_factory=list)
    _group: list[str] | None = None
    _closed: bool = False

    @classmethod
    def from_body(cls, function: ast.FunctionDef, names: NameBindings) -> Chain:
        """Read the chain that a function returns; local names may stand for parts of it, each bound once."""
        bound: dict[str, ast.expr] = {}
        for node in function.body:
            if isinstance(node, ast.Return) and node.value is not None:
                return cls.from_expression(node.value, names, bound)
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                bound[node.targets[0].id] = _substitute_names(node.value, bound)
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                raise NotTaken("a function is imported only if it returns one chain of DataFrame methods", node.lineno)
        raise NotTaken("the function returns nothing", function.lineno)

    @classmethod
    def from_expression(cls, node: ast.expr, names: NameBindings, bound: dict[str, ast.expr]) -> Chain:
        node = _substitute_names(node, bound)
        chain = cls(names, line=node.lineno)
        calls: list[tuple[str, ast.Call | None, int]] = []
        while isinstance(node, (ast.Call, ast.Attribute)):
            call: ast.Call | None = None
            inner: ast.expr = node
            if isinstance(node, ast.Call):
                call, inner = node, node.func
            if not isinstance(inner, ast.Attribute):
                break
            calls.insert(0, (inner.attr, call, node.end_lineno or node.lineno))
            node = inner.value
        if not isinstance(node, ast.Name) or node.id not in {"spark", *names.pipelines}:
            reason = f"{ast.unparse(node)[:40]} is not supported: a chain must start with spark or dlt"
            raise NotTaken(reason, node.lineno)
        for name, called, line in chain._read_head(calls):
            chain.line = line
            chain._step(name, called)
        return chain

    @staticmethod
    def column_of(node: ast.expr, names: NameBindings) -> ColumnSql:
        """Convert a column expression to SQL."""
        return ExpressionConverter(names.functions, names.constants, names.modules).column(node)

    @property
    def sql(self) -> str | None:
        """Its SELECT; None for files that are read as they are."""
        if self._whole:
            return self._whole
        if self.files and self._items == ["*"] and not self._where and self._group is None:
            return None
        text = f"SELECT {', '.join(self._items)}\nFROM {self._from}"
        if self._where:
            text += f"\nWHERE {' AND '.join(self._where)}"
        return text + (f"\nGROUP BY {', '.join(self._group)}" if self._group else "")

    def _refusal(self, reason: str) -> NotTaken:
        return NotTaken(reason, self.line)

    def _constant(self, node: ast.expr) -> Any:
        return constant(node, self.names)

    def _first_constant(self, call: ast.Call) -> Any:
        return next(map(self._constant, call.args), None)

    def _column_of(self, node: ast.expr) -> ColumnSql:
        return self.column_of(node, self.names)

    def _column_of_text(self, text: str) -> ColumnSql:
        try:
            return of_text(text)
        except QuerySyntax as error:
            raise self._refusal(error.message) from None

    # --- where it begins ---------------------------------------------------------------------------------------------

    def _read_head(self, calls: list[tuple[str, ast.Call | None, int]]) -> list[tuple[str, ast.Call | None, int]]:
        """Read the head of the chain; return the steps after it."""
        first, call, _ = next(iter(calls), ("nothing", None, 0))
        if first == "sql" and call:
            self._sql_text(call)
            return calls[1:]
        if first in ("read", "read_stream", "table", "readStream"):
            self.streams = first in ("read_stream", "readStream")
            if call is None:
                return self._reader(calls[1:])
            self._read_table(call)
            return calls[1:]
        raise self._refusal(f"{first} is not supported: read a table, a stream, files or spark.sql")

    def _sql_text(self, call: ast.Call) -> None:
        text = self._first_constant(call)
        if not isinstance(text, str) or len(call.args) > 1 or call.keywords:
            raise self._refusal("the SQL is not a string literal")
        try:
            converted = convert_query(Tokens(text), 0, self.line - 1)
        except (QuerySyntax, NotTaken) as error:
            raise self._refusal(error.message) from None
        self._whole, self.files, self._closed = converted.query or "", converted.files, True
        self.remarks = converted.remarks
        self.streams = "STREAM(" in self._whole

    def _read_table(self, call: ast.Call) -> None:
        name = self._first_constant(call)
        if not isinstance(name, str) or not re.fullmatch(r"[\w.`]+", name):
            raise self._refusal("the name of the table is not a string literal")
        parts = name.replace("`", "").split(".")
        if not all(parts):
            raise self._refusal("the table has no name")
        plain = ".".join(map(ident, address(parts).split(".")))
        self._from = f"STREAM({plain})" if self.streams else plain
        self._columns = self.names.columns.get(address(parts))
        self._reads_files = address(parts) in self.names.files

    def _reader(self, steps: list[tuple[str, ast.Call | None, int]]) -> list[tuple[str, ast.Call | None, int]]:
        form, path = "", None
        options: dict[str, str] = {}
        line = self.line
        while steps and path is None:
            name, call, self.line = steps.pop(0)
            values, call = self._arguments(name, call)
            options |= self._keyword_options(name, call)
            if name == "table":
                self._read_table(call)
                self.remarks = [delta_option(self.line, option, self._from) for option in options]
                return steps
            if name == "load":
                form = options.pop("format", form)
                path = self._one_path(values, options)
            elif name in _READERS:
                form = name
                path = self._one_path(values, options)
            elif name == "format":
                form = str(values[0])
            else:
                options |= self._reader_options(name, values)
        if not path:
            raise self._refusal("the path is missing")
        infers = form in ("json", "xml")
        if form == "cloudFiles":
            form = options.pop("cloudFiles.format", form)
        self.files = Files(path, form.lower(), options, line, infers, whole=not self.streams)
        self._from = f"STREAM({FILES})" if self.streams else FILES
        return steps

    def _reader_options(self, name: str, values: list[Any]) -> dict[str, str]:
        """Return the options that a reader's method sets by its values; those of ``options`` are keywords."""
        if name == "option":
            return {str(values[0]): _text(values[1])}
        if name == "schema" and isinstance(values[0], str):
            return {"schema": values[0]}
        if name != "options":
            raise self._refusal(f"{name} of the reader is not supported")
        return {}

    def _keyword_options(self, name: str, call: ast.Call) -> dict[str, str]:
        """Return the options that a reader's method gets by keywords, without those that are None."""
        options: dict[str, Any] = {}
        for keyword in call.keywords:
            value = self._constant(keyword.value)
            if keyword.arg is None and isinstance(value, dict):
                options |= value
            elif not (isinstance(keyword.value, ast.Constant) and value is None):
                options[keyword.arg or "**"] = value
        for option, value in options.items():
            if not isinstance(value, (str, int, float)):
                raise self._refusal(f"the argument {option} of {name} is not a literal")
        return {str(option): _text(value) for option, value in options.items()}

    def _arguments(self, name: str, call: ast.Call | None) -> tuple[list[Any], ast.Call]:
        """Return the constant arguments of a reader's method, and its call."""
        values = []
        if call:
            values = list(map(self._constant, call.args))
        if call is None or None in values:
            raise self._refusal(f"an argument of {name} is not a string literal")
        if len(values) != (expected := _ARGUMENTS.get(name, len(values))):
            raise self._refusal(f"{name} of the reader has {len(values)} arguments, but {expected} are expected")
        return values, call

    def _one_path(self, values: list[Any], options: dict[str, str]) -> str:
        if values:
            path = values[0]
        else:
            path = options.pop("path", "")
        if len(values) > 1 or not isinstance(path, str):
            raise self._refusal("it reads several sets of files: declare a table for each")
        return path

    # --- its steps ---------------------------------------------------------------------------------------------------

    def _step(self, name: str, call: ast.Call | None) -> None:
        step = getattr(self, f"_do_{'filter' if name == 'where' else name}", None)
        if step is None or call is None:
            raise self._refusal(f"{name} is not supported by the importer")
        if self._closed:
            raise self._refusal(f"{name} after a complete query or an aggregation")
        if call.keywords:
            raise self._refusal(f"{name} with named arguments")
        if len(call.args) not in _STEPS.get(name, (len(call.args),)):
            raise self._refusal(f"{name} with {len(call.args)} arguments")
        step(call)

    def _do_select(self, call: ast.Call) -> None:
        self._demand_star("select")
        self._items = [self._column(column).item for column in _columns(call)]

    def _do_selectExpr(self, call: ast.Call) -> None:
        self._demand_star("selectExpr")
        texts = list(map(self._constant, call.args))
        if not texts or not all(isinstance(text, str) for text in texts):
            raise self._refusal("selectExpr without string literals")
        self._items = [self._column_of_text(text).item for text in texts]
        self._made = {"*"}

    def _demand_star(self, name: str) -> None:
        if self._items != ["*"]:
            raise self._refusal(f"{name} after derived or dropped columns")

    def _column(self, node: ast.expr) -> ColumnSql:
        if isinstance(value := self._constant(node), str):
            column = ColumnSql(column_path(value, node.lineno))
        else:
            column = self._column_of(node)
        # A later filter may mean the name that the column has here: behind the last dot, or as in CAST(a AS INT).
        if column.name or column.text.endswith(".*"):
            self._made.add("*")
        elif re.fullmatch(r"[\w.`]+", column.text):
            self._made |= _words(".".join(column.text.split(".")[1:][-1:]))
        elif column.text != "*":
            self._made |= _words(column.text)
        return column

    def _do_filter(self, call: ast.Call) -> None:
        value = self._constant(call.args[0])
        if isinstance(value, str):
            condition = self._column_of_text(value).text
        else:
            condition = self._column_of(call.args[0]).text
        if "*" in self._made or self._made & _words(condition):
            raise self._refusal("filter on derived columns: filter first, or declare a table for each step")
        self._where.append(f"({condition})")

    def _do_withColumn(self, call: ast.Call) -> None:
        name, node = self._constant(call.args[0]), call.args[1]
        if not isinstance(name, str) or not name.isidentifier() or self._items[0][:1] != "*":
            raise self._refusal("withColumn without a plain name, or after a select")
        sql = self._column_of(node).text
        if self._made & {*_words(sql), name.lower()}:
            raise self._refusal(f"{name} is derived from a column of the same chain: declare a table for each step")
        dropped = _words(self._items[0].partition("(")[2]) - self._made
        if dropped & _words(sql):
            raise self._refusal(f"{name} is derived from a dropped column")
        if name.lower() in {*_words(sql), *(self._columns or ())} - dropped:
            self._items[0] = self._star_except(name)
        elif self._columns is None and name.lower() not in dropped:
            reason = f"if the table that it reads has this column, the run fails: then write * EXCEPT ({ident(name)})"
            self.remarks.append(Remark(self.line, f"withColumn of {name}", reason))
        self._items.append(f"{sql} AS {ident(name)}")
        self._made.add(name.lower())

    def _star_except(self, name: str) -> str:
        star = re.fullmatch(r"\* EXCEPT \((.*)\)", self._items[0])
        if star and name.lower() in _words(star[1]):
            return star[0]
        if star:
            return f"* EXCEPT ({star[1]}, {ident(name)})"
        return f"* EXCEPT ({ident(name)})"

    def _do_drop(self, call: ast.Call) -> None:
        for node in call.args:
            name = self._constant(node)
            if not isinstance(name, str) or self._items[0][:1] != "*" or name.lower() in self._made:
                raise self._refusal("drop of a derived column, or after a select")
            if self._columns is None and not (self._reads_files and name == "_rescued_data"):
                reason = "if the table that it reads has no such column, the run fails: then remove it from EXCEPT"
                self.remarks.append(Remark(self.line, f"drop of {name}", reason))
            if self._columns is None or name.lower() in self._columns:
                self._items[0] = self._star_except(name)

    def _do_join(self, call: ast.Call) -> None:
        if self._items != ["*"] or self._where:
            raise self._refusal("join after other steps")
        other = Chain.from_expression(call.args[0], self.names, {})
        columns = self._constant(call.args[1])
        if isinstance(columns, str):
            columns = [columns]
        join_type = "inner"
        if len(call.args) > 2:
            join_type = str(self._constant(call.args[2]))
        kind = _JOINS.get(join_type)
        plain = other._items == ["*"] and not (other._where or other._whole or other.files or other._group)
        if kind is None or not columns or not isinstance(columns, list) or not plain:
            raise self._refusal("a join other than an inner or left join with a table on columns of the same name")
        self._from += f"\n{kind} {other._from} USING ({', '.join(ident(str(column)) for column in columns)})"
        self.streams = self.streams or other.streams
        self._columns = None
        self.remarks += other.remarks

    def _do_groupBy(self, call: ast.Call) -> None:
        if self._items != ["*"] or self._group is not None:
            raise self._refusal("groupBy after derived or dropped columns")
        grouped = list(map(self._column, _columns(call)))
        self._items = [column.item for column in grouped]
        self._group = [column.text for column in grouped]
        self._made = {"*"}

    def _do_count(self, call: ast.Call) -> None:
        self._add_aggregates("count", [ColumnSql("count(*)", "`count`")])

    def _do_agg(self, call: ast.Call) -> None:
        self._add_aggregates("agg", list(map(self._column_of, call.args)))

    def _add_aggregates(self, name: str, columns: list[ColumnSql]) -> None:
        if self._group is None:
            raise self._refusal(f"{name} without groupBy")
        if not all(column.name for column in columns):
            raise self._refusal(f"{name} with an unnamed column: add .alias(…)")
        self._items += [column.item for column in columns]
        self._closed = True


def _columns(call: ast.Call) -> list[ast.expr]:
    """Return the columns that a method gets, as arguments or as one list."""
    if len(call.args) == 1 and isinstance(call.args[0], ast.List):
        return call.args[0].elts
    return call.args


def _words(sql: str) -> set[str]:
    """Return all words of an expression in lower case, its column names among them."""
    return set(re.findall(r"\w+", sql.lower()))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _substitute_names(node: ast.expr, bound: dict[str, ast.expr]) -> ast.expr:
    """Replace bound names in an expression by their values."""

    class _Names(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return bound.get(name.id, name)

    if not bound:
        return node
    substituted: ast.expr = _Names().visit(ast.fix_missing_locations(node))
    return substituted
