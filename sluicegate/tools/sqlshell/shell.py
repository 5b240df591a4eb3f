"""``sluicegate sql``: queries of the lake's tables in Spark's SQL, as of any version, without a JVM.

sqlglot parses the query, delta-rs lists the files of each table at its version, and DuckDB runs it: see
:mod:`sluicegate.tools.sqlshell.dialect` for what that means for its results. Tables are called ``pipeline.table``,
``database.table``, or ``table`` where only one pipeline has it. A query reads tables of the lake only: it cannot reach
files, the network or DuckDB's settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, DeltaProtocolError
from sqlglot import exp
from sqlglot.errors import SqlglotError, UnsupportedError

from sluicegate.definition import Pipeline
from sluicegate.errors import QueryError, Where
from sluicegate.lake.tables import dataset, delta_table
from sluicegate.private_folders import PrivateFolder
from sluicegate.schema.columns import ENGINE_COLUMNS
from sluicegate.settings import Settings
from sluicegate.spark_sql.order_by import is_row_for_row, order_by
from sluicegate.tools.sqlshell import errors, statements
from sluicegate.tools.sqlshell.dialect import MACROS, SparkSQL, Untranslatable, name_columns, to_duckdb
from sluicegate.tools.sqlshell.names import QueryTable, find_table, known_tables, written_name

_CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Command, exp.Into)
_VARIABLES = (exp.Parameter, exp.SessionParameter, exp.Placeholder)
_ROW_MAKERS = (exp.Explode, exp.Inline, exp.Unnest, exp.Subquery)  # Posexplode is an Explode
_BEGINNINGS = {"SELECT", "WITH", "FROM", "("}


@dataclass(frozen=True)
class _Source:
    """Table as of a version, as one query reads it."""

    table: QueryTable
    version: int | None = None
    moment: datetime | None = None

    @property
    def view(self) -> str:
        """Name inside DuckDB, which its messages show."""
        when = self.version if self.moment is None else self.moment.isoformat()
        return self.table.label if when is None else f"{self.table.label}@{when}"


def tables(pipelines: Mapping[str, Pipeline], settings: Settings) -> dict[str, str]:
    """Return the qualified names that a query can use, each with the URI of its table, created or not.

    Args:
        pipelines: the definitions, by name.
        settings: configuration with the lake's address.

    Returns:
        ``pipeline.table`` of each table, each silver table's quarantine, each de-identified table and the rejected rows
        of each with rules, then ``database.table`` where the definition has a database. Ambiguous names (a database
        that two pipelines fill) are left out.
    """
    tables_by_name = known_tables(pipelines, settings)
    return {name: tables[0].uri for name, tables in tables_by_name.items() if "." in name and len(tables) == 1}


def query(sql: str, pipelines: Mapping[str, Pipeline], settings: Settings) -> pa.Table:
    """Return the rows of one SELECT.

    Args:
        sql: one SELECT in Spark's SQL; ``table VERSION AS OF 3`` and ``table TIMESTAMP AS OF '…'`` are time travel.
        pipelines: the definitions whose tables can be read, by name.
        settings: configuration with the lake's address.

    Returns:
        The rows, times in UTC. A second column of one name becomes ``name_1``.

    Raises:
        QueryError: if it is not one SELECT, names a table or a version that does not exist, or DuckDB refuses it.
        NotADeltaTable: if there are files, but no Delta table, where one is defined.
    """
    with _translated_errors(sql):
        tree = _parse(sql)
        name_columns(tree)
        with _engine() as engine:
            sources = _resolve(tree, sql, known_tables(pipelines, settings), engine)
            _keep_order(tree, sources)
            names, columns = _needed_columns(tree), set[str]()
            for source in sources:
                columns |= _register(source, names, engine)
            return _run(tree, sql, columns, engine)


def table_names(sql: str) -> list[str]:
    """Return the names of the tables that a query reads, as it writes them, each once.

    Args:
        sql: one SELECT in Spark's SQL.

    Raises:
        QueryError: if it is not one SELECT.
    """
    with _translated_errors(sql):
        return list(dict.fromkeys(map(written_name, _tables_of_lake(_parse(sql)))))


@contextmanager
def _translated_errors(sql: str) -> Iterator[None]:
    """Raise what sqlglot says of a query as an error of the query."""
    try:
        yield
    except (Untranslatable, UnsupportedError) as error:
        raise QueryError(f"the query cannot be run without Spark: {errors.first_line(error)}") from error
    except SqlglotError as error:
        raise errors.sqlglot_error(error, sql) from error
    except RecursionError as error:
        raise QueryError("the query is nested too deeply") from error


def drop_engine_columns(rows: pa.Table, sql: str) -> pa.Table:
    """Drop the engine's columns that ``*`` selected, but not those that the query names.

    Args:
        rows: result of ``query``.
        sql: the query.
    """
    named = {identifier.name.lower() for identifier in _parse(sql).find_all(exp.Identifier)}
    hidden = [name for name in ENGINE_COLUMNS if name not in named]
    repeated = {f"{name}_{number}" for name in hidden for number in range(1, rows.num_columns)}  # of a joined table
    return rows.drop_columns([name for name in rows.column_names if name in {*hidden, *repeated}])


def _parse(sql: str) -> exp.Query:
    tokens = SparkSQL().tokenize(sql)
    if not tokens:
        raise QueryError("the query is empty", hint="write one SELECT")
    if (begins := tokens[0].text.upper()) not in _BEGINNINGS:  # sqlglot parses some other statements as raw text
        message = f"only SELECT is supported here, not {begins}"
        raise QueryError(message, where=Where(line=1), hint=statements.hint(begins))
    parsed = sqlglot.parse(sql, read=SparkSQL)
    trees = [tree for tree in parsed if not isinstance(tree, (NoneType, exp.Semicolon))]
    if len(trees) != 1:
        raise QueryError(f"only one SELECT can run at a time, not {len(trees)}")
    tree = trees[0]
    if change := (tree if not isinstance(tree, exp.Query) else tree.find(*_CHANGES)):
        message = f"only SELECT is supported here, but the query contains {change.key.upper()}"
        raise QueryError(message, hint=statements.hint(change.key))
    if variable := tree.find(*_VARIABLES):
        raise QueryError(
            f"{variable.name or '?'} is a parameter, which has no value here",
            hint="write VERSION AS OF or TIMESTAMP AS OF after the table name for time travel",
        )
    assert isinstance(tree, exp.Query)  # noqa: S101 (for mypy: any other kind is refused above)
    return tree


def _resolve(
    tree: exp.Query, sql: str, tables_by_name: Mapping[str, list[QueryTable]], engine: duckdb.DuckDBPyConnection
) -> list[_Source]:
    """Replace each table by the name of its view; return these views."""
    sources: dict[_Source, None] = {}
    for lateral in tree.find_all(exp.Lateral):
        _refuse_function(lateral.this)
    named: set[tuple[str, str]] = set()
    for node in _tables_of_lake(tree):
        source = _source(node, find_table(node, sql, tables_by_name), engine)
        sources[source] = None
        if not node.alias:
            named.add((node.db.lower(), node.name.lower()))
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        node.set("this", exp.to_identifier(source.view, quoted=True))
        for part in ("db", "catalog", "version"):
            node.set(part, None)
    _shorten(tree, named)
    return list(sources)


def _tables_of_lake(tree: exp.Query) -> list[exp.Table]:
    """Return the tables of the lake that a query names: neither hints nor its own WITH queries."""
    tables = []
    for node in tree.find_all(exp.Table):
        if node.find_ancestor(exp.Hint):
            continue
        if not isinstance(node.this, exp.Identifier):
            _refuse_function(node.this)
        elif node.db or not _is_cte(node):
            tables.append(node)
    return tables


def _keep_order(tree: exp.Query, sources: Sequence[_Source]) -> None:
    """Order rows that are read unchanged from a table as its definition says."""
    if not (isinstance(tree, exp.Select) and is_row_for_row(tree)):
        return
    view = tree.args["from_"].this.name
    for source in sources:
        if source.view == view and source.table.ordering.keys:
            order_by(tree, source.table.ordering.leading_keys([field.name for field in _open(source).schema().fields]))


def _refuse_function(node: exp.Expr) -> None:
    """Refuse table functions of DuckDB: they read files, memory and settings. Spark's that explode arrays may stay."""
    if not isinstance(node, _ROW_MAKERS):
        if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous):
            name = node.sql_name()
        else:
            name = node.name
        raise QueryError(f"{name.lower()}(…) cannot be read as a table here", hint="use a table of the lake")


def _is_cte(table: exp.Table) -> bool:
    """Return whether a name is that of a WITH query in scope."""
    name = table.name.lower()
    came_from: exp.Expr = table
    while came_from.parent is not None:
        node = came_from.parent
        if isinstance(node, exp.With):  # inside one of several: later ones are not in scope
            visible = list(node.expressions[: came_from.index])
            if node.args.get("recursive"):
                visible.append(came_from)
            if name in {cte.alias.lower() for cte in visible}:
                return True
        elif came_from.arg_key != "with_" and name in {cte.alias.lower() for cte in getattr(node, "ctes", ())}:
            return True
        came_from = node
    return False


def _shorten(tree: exp.Query, named: set[tuple[str, str]]) -> None:
    """Shorten ``pipeline.table.column`` to ``table.column``; ``alias.struct.field`` looks like it and stays."""
    for column in tree.find_all(exp.Column):
        parts = [part.name.lower() for part in column.parts]
        if len(parts) > 2 and parts[0] and (parts[0], parts[1]) in named:
            column.set("catalog" if column.args.get("catalog") else "db", None)


def _source(node: exp.Table, table: QueryTable, engine: duckdb.DuckDBPyConnection) -> _Source:
    travel = node.args.get("version")
    if travel is None:
        return _Source(table)
    kind, value = travel.name.upper(), travel.expression
    if travel.args.get("kind") != "AS OF" or value is None:
        raise QueryError(f"a {kind} only supports AS OF", where=Where(table=table.label))
    if kind == "VERSION":
        if not (isinstance(value, exp.Literal) and value.name.isdecimal()):
            raise QueryError(f"{value.sql('spark')} is not a version number", where=Where(table=table.label))
        return _Source(table, version=int(value.name))
    return _Source(table, moment=_moment(value, table, engine))


def _moment(value: exp.Expr, table: QueryTable, engine: duckdb.DuckDBPyConnection) -> datetime:
    text, where = value.sql("spark"), Where(table=table.label)
    if value.find(exp.Column, exp.Query):
        raise QueryError(f"{text} is not a constant timestamp", where=where)
    ran = to_duckdb(exp.select(exp.cast(value.copy(), "TIMESTAMPTZ").as_("moment")))
    try:
        [(moment,)] = engine.sql(ran).fetchall()
    except duckdb.Error as error:
        raise QueryError(f"{text} is not a timestamp", where=where, hint="for example 2025-03-03 06:00:00") from error
    if not isinstance(moment, datetime):
        raise QueryError(f"{text} is not a timestamp", where=where)
    return moment.astimezone(UTC)


def _register(source: _Source, names: set[str] | None, engine: duckdb.DuckDBPyConnection) -> set[str]:
    """Register a table with DuckDB; return its columns."""
    try:
        table = _open(source)
        engine.register(source.view, _rows(table, names))
        return {field.name for field in table.schema().fields}
    except (DeltaError, pa.ArrowException, OSError) as error:
        where = Where(table=source.table.label, file=source.table.uri)
        raise QueryError(f"{source.view} cannot be read: {errors.first_line(error)}", where=where) from error


def _open(source: _Source) -> DeltaTable:
    """Open the Delta table as of the requested version."""
    label, where = source.table.label, Where(table=source.table.label, file=source.table.uri)
    table = delta_table(source.table.uri)
    if table is None:
        hint = f"sluicegate run {label.partition('.')[0]} creates it once there is data to read"
        raise QueryError(f"{label} does not exist yet", where=where, hint=hint)
    version = source.version
    if version is not None and version > table.version():
        raise QueryError(f"unknown version {version} of {label}: the latest is {table.version()}", where=where)
    if source.moment is not None:
        version = _version_at(table, source.moment, where)
    if version is not None:
        table.load_as_version(version)
    return table


def _version_at(table: DeltaTable, moment: datetime, where: Where) -> int:
    """Return the newest version committed by then, by the commits' own timestamps.

    delta-rs would use the modification times of the log's files, which a copy of the lake changes, and silently takes
    the oldest version where there was none yet.
    """
    commits = {entry["version"]: entry.get("inCommitTimestamp") or entry["timestamp"] for entry in table.history()}
    by_then = [version for version, committed in commits.items() if committed <= moment.timestamp() * 1000]
    if by_then:
        return int(max(by_then))
    first = datetime.fromtimestamp(min(commits.values()) / 1000, UTC).isoformat(" ", "milliseconds")
    raise QueryError(f"{where.table} had no version at {moment}: its first is of {first}", where=where)


def _needed_columns(tree: exp.Query) -> set[str] | None:
    """Return lower-case names that include all columns the query can need; None: it may need any."""
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    if stars or any(join.method.upper() == "NATURAL" for join in tree.find_all(exp.Join)):
        return None
    return {name.name.lower() for name in tree.find_all(exp.Identifier)}


def _rows(table: DeltaTable, column_names: set[str] | None) -> Any:
    """Return the rows of the table for DuckDB: streamed where pyarrow can read the files, else read at once."""
    try:
        return dataset(table)
    except DeltaProtocolError:
        pass  # deletion vectors, column mapping: delta-rs reads them, but its reader can be read only once
    names = [field.name for field in table.schema().fields]
    chosen = [name for name in names if column_names is None or name.lower() in column_names] or names[:1]
    columns = ", ".join('"{}"'.format(name.replace('"', '""')) for name in chosen)
    reader = QueryBuilder().register("source", table).execute(f"SELECT {columns} FROM source")
    return pa.RecordBatchReader.from_stream(reader).read_all()


@contextmanager
def _engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB engine that can reach only what is registered with it."""
    with ExitStack() as stack:
        try:
            spill = str(stack.enter_context(PrivateFolder()))
        except OSError:
            spill = ""  # no temporary folder: DuckDB then spills nothing
        config: dict[str, Any] = {"temp_directory": spill, "autoload_known_extensions": "false"}
        engine = stack.enter_context(duckdb.connect(":memory:", config=config))
        for statement in (
            "SET TimeZone = 'UTC'",
            "SET errors_as_json = true",
            *MACROS,
            "SET python_enable_replacements = false",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            engine.execute(statement)
        yield engine


def _run(tree: exp.Query, sql: str, columns: set[str], engine: duckdb.DuckDBPyConnection) -> pa.Table:
    ran = to_duckdb(tree)
    try:
        return _result(engine, ran)
    except duckdb.Error as error:
        if "multiple overloads" not in str(error):  # an operand has no type until it is bound: an aggregate, mostly
            raise errors.duckdb_error(error, ran, sql, columns) from error
    ran = to_duckdb(tree, by_text=True)
    try:
        return _result(engine, ran)
    except duckdb.Error as error:
        raise errors.duckdb_error(error, ran, sql, columns) from error


def _result(engine: duckdb.DuckDBPyConnection, ran: str) -> pa.Table:
    """Return the result in types that Spark has: DuckDB has sums of 128 bits and intervals of three parts."""
    try:
        relation = engine.sql(ran)
    except duckdb.Error:
        engine.execute(ran)  # fails again, but this time the error has a position
        raise
    types = list(map(str, relation.types))
    table: pa.Table = relation.to_arrow_table()
    taken: set[str] = set()
    columns = list(map(_plain_column, table.columns, types))
    names = [_free_name(name, taken) for name in table.column_names]
    if columns:
        return pa.table(columns, names=names)
    return table


def _plain_column(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    if kind == "HUGEINT":
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column  # a decimal of 38 digits
    if kind == "INTERVAL":
        parts = column.to_pylist()
        if all(part is None or not part.months for part in parts):
            micros = [None if part is None else part.days * 86_400_000_000 + part.nanoseconds // 1000 for part in parts]
            return pa.chunked_array([pa.array(micros, pa.duration("us"))])
    return column


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 0
    while free.lower() in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free.lower())
    return free
