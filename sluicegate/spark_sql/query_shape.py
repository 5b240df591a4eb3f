"""Facts about a query's tree: output columns, placement of STREAM, and whether rows belong to single records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

# Aggregates that sqlglot does not know as such.
_AGGREGATES = {
    "mean", "std", "try_sum", "try_avg", "every", "some", "histogram_numeric", "count_min_sketch", "hll_sketch_agg",
    "hll_union_agg", "listagg", "string_agg", "bool_and", "bool_or", "percentile", "regr_count", "mode",
}  # fmt: skip

# Generators that sqlglot does not know as such.
_GENERATORS = {"inline_outer", "stack", "variant_explode", "variant_explode_outer", "posexplode_outer"}

# All generators by their names in a text: those before, and those that sqlglot knows.
GENERATORS = {*map(str.upper, _GENERATORS), "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "INLINE"}

# Parts of a SELECT that filter out no record.
_KEEPING = {"expressions", "from_", "joins", "laterals", "with_", "hint", "order", "sort", "cluster", "distribute"}

Objection = tuple[str, exp.Expr]


def clauses(node: exp.Expr) -> dict[str, Any]:
    """Return the parts of a node that have something in them, by sqlglot's names for them."""
    return {part: value for part, value in node.args.items() if value}


def items(node: exp.Expr, part: str) -> list[Any]:
    """Return the nodes in a part of a node that is a list; none if it has no such part."""
    return node.args.get(part) or []


def using_columns(join: exp.Join) -> frozenset[str]:
    """Return the lower-case names of the columns in the USING of a join."""
    return frozenset(column.name.lower() for column in items(join, "using"))


def table_name(table: exp.Table) -> str:
    """Return the lower-case name of a table, with all of its parts, in ``STREAM(…)`` or not."""
    return ".".join(part.name for part in name_parts(table)).lower()


def first_select(tree: exp.Query) -> exp.Select:
    """Return the SELECT that names the columns: the outermost, or the first branch of a UNION."""
    node: exp.Expr = tree
    while not isinstance(node, exp.Select):
        node = node.this
    return node


def outputs(select: exp.Select) -> list[tuple[str | None, exp.Expr]]:
    """Return the columns of a SELECT list in order: None for a star, "" for an expression without a name."""
    named: list[tuple[str | None, exp.Expr]] = []
    for expression in select.expressions:
        if expression.is_star:
            named.append((None, expression))
        else:
            named += [(name, expression) for name in item_names(expression)]
    return named


def item_names(expression: exp.Expr) -> list[str]:
    """Return the columns that an item of a SELECT list other than a star makes: "" for an expression without a name."""
    if isinstance(expression, exp.Aliases):
        return [identifier.name for identifier in expression.args["expressions"]]
    if isinstance(expression, (exp.Alias, exp.Column, exp.Dot)):
        return [expression.alias_or_name]
    return [""]


def column_number(node: exp.Expr) -> int:
    """Return the column that a number in GROUP BY or ORDER BY means, counted from 1; 0 for all else."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
        return int(node.name)
    return 0


def output(select: exp.Select, name: str, names: Sequence[str] | None = None) -> exp.Expr | None:
    """Return the expression of a column of a SELECT list, without its alias; None if a star selects it.

    Args:
        select: the SELECT.
        name: the column, in any case.
        names: names of all columns if they are matched by position, as in a later branch of a UNION ALL.
    """
    named = outputs(select)
    called = [output_name for output_name, _ in named] if names is None else names
    pairs = zip(called, named, strict=False)
    return next(
        (node.unalias() for output_name, (_, node) in pairs if (output_name or "").lower() == name.lower()), None
    )


def has_subqueries(tree: exp.Query) -> bool:
    """Return whether a query has others in it: subqueries, CTEs or branches of a UNION."""
    return any(node is not tree for node in tree.find_all(exp.Query))


def comparable_form(node: exp.Expr, table: str | None) -> exp.Expr:
    """Normalize an expression for comparison, without case, quotes and one table's qualifier.

    Args:
        node: the expression.
        table: the table's alias in lower case; None to keep all qualifiers.
    """
    copy = node.copy().unnest()
    for column in copy.find_all(exp.Column):
        if len(column.parts) == 2 and column.table.lower() == table:
            column.set("table", None)
    for identifier in copy.find_all(exp.Identifier):
        identifier.set("this", identifier.name.lower())
        identifier.set("quoted", False)
    return copy


def output_names(select: exp.Select) -> list[str | None]:
    """Return the column names of a SELECT list, as in ``outputs``."""
    return [name for name, _ in outputs(select)]


def star_columns(select: exp.Select, alias: str, columns: Sequence[str]) -> set[str]:
    """Return the columns of the stream, among ``columns``, that stars of the SELECT list select."""
    brought: set[str] = set()
    for expression in select.expressions:
        table = expression.text("table") or alias
        if expression.is_star and table.lower() == alias.lower() and not expression.text("db"):
            without = {column.name.lower() for column in items(expression.find(exp.Star), "except_")}
            brought |= {column for column in columns if column.lower() not in without}
    return brought


def construct_objections(tree: exp.Query) -> Iterator[Objection]:
    """Yield the objections to constructs that no layer's query may have."""
    for node in tree.walk():
        if isinstance(node, (exp.Placeholder, exp.Parameter)):
            yield (
                "a query cannot contain parameter markers: write the value, or a function for a field of VARIANT",
                node,
            )
        elif isinstance(node, exp.QueryTransform):
            yield "TRANSFORM … USING is not allowed, because it runs a program", node
        elif isinstance(node, exp.Table):
            if node.args.get("version") or node.args.get("when"):
                yield "remove VERSION or TIMESTAMP AS OF: a run chooses the versions that it reads", node
            if isinstance(node.this, exp.Anonymous) and node.this.name.upper() == "IDENTIFIER":
                yield "write the table name instead of IDENTIFIER(…)", node
            if is_stream(node) and not name_parts(node):
                yield "STREAM(…) requires a table name", node


def is_stream(table: exp.Table) -> bool:
    """Return whether a table is written as ``STREAM(name)``."""
    return isinstance(table.this, exp.Anonymous) and table.this.name.upper() == "STREAM"


def name_parts(table: exp.Table) -> list[exp.Expr]:
    """Return the identifiers of a table's name, in ``STREAM(…)`` or not; none if it has other parts."""
    if not is_stream(table):
        return list(table.parts)
    match table.this.expressions:
        case [exp.Column() as name] if not name.is_star:
            return list(name.parts)
    return []


def is_from_with(table: exp.Table) -> bool:
    """Return whether a name refers to a CTE in scope, and not to a table."""
    return cte_of(table) is not None


def cte_of(table: exp.Table) -> exp.CTE | None:
    """Return the CTE in scope that a name refers to; None if it refers to a table."""
    if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
        return None
    name, node = table.name.lower(), table.parent
    child: exp.Expr = table
    while node is not None:
        ctes = _visible_ctes(node, child)
        if name in ctes:
            return ctes[name]
        child, node = node, node.parent
    return None


def _visible_ctes(node: exp.Expr, child: exp.Expr) -> dict[str, exp.CTE]:
    """Return by name the CTEs of ``node`` that are in the scope of ``child``."""
    if isinstance(node, exp.With):
        # A CTE sees those before it, and itself if it is recursive.
        place = node.expressions.index(child)
        return {cte.alias.lower(): cte for cte in node.expressions[: place + bool(node.args.get("recursive"))]}
    with_ = node.args.get("with_")
    if with_ is None or child is with_:
        return {}
    return {cte.alias.lower(): cte for cte in with_.expressions}


def tables_of_from(query: exp.Expr, entered: Sequence[exp.CTE] = ()) -> Iterator[exp.Table]:
    """Yield the tables of the FROM of a query in its order, with its joins, through derived tables and names of a WITH.

    Args:
        query: the query.
        entered: CTEs that it is read through, which it may name again if they are recursive.
    """
    match query:
        case exp.Select():
            if query.args.get("from_"):
                yield from tables_of_from(query.args["from_"].this, entered)
        case exp.Subquery() | exp.Paren():
            yield from tables_of_from(query.this, entered)
        case exp.SetOperation():
            for branch in (query.left, query.right):
                yield from tables_of_from(branch, entered)
        case exp.Table():
            cte = cte_of(query)
            if cte is None:
                yield query
            elif all(cte is not other for other in entered):
                yield from tables_of_from(cte.this, [*entered, cte])
    for join in items(query, "joins"):
        yield from tables_of_from(join.this, entered)


def is_outermost(tree: exp.Query, table: exp.Table) -> bool:
    """Return whether a table is in the FROM of the outermost SELECT itself, joins included."""
    parent = table.parent
    return isinstance(tree, exp.Select) and isinstance(parent, (exp.From, exp.Join)) and parent.parent is tree


_CLAUSES_OF_SEVERAL_RECORDS = {
    "group": "GROUP BY", "having": "HAVING", "distinct": "DISTINCT", "qualify": "QUALIFY", "limit": "LIMIT",
    "offset": "OFFSET", "windows": "WINDOW",
}  # fmt: skip


def record_objections(tree: exp.Select, stream: exp.Table, *, many: bool) -> Iterator[Objection]:
    """Yield the objections to constructs by which rows of a query over a stream do not belong to single records.

    Args:
        tree: the outermost SELECT.
        stream: the table in STREAM.
        many: True if a record may give many rows.
    """
    yield from _several_records(tree)
    yield from _orders(tree)
    yield from _aggregates_and_windows(tree)
    if not many:
        for node, name in _own_generators(tree):
            yield f"{name} returns several rows for one record: set `rows: many` in the table's definition", node
    if any(items(node, "pivots") for node in (stream, stream.parent) if node):
        yield "PIVOT and UNPIVOT cannot be processed record by record", stream
    if stream.alias_column_names:
        yield "the alias of STREAM(…) cannot rename columns: rename them in the SELECT list", stream
    yield from _strange_rows(tree, stream)


def _several_records(select: exp.Select) -> Iterator[Objection]:
    """Yield the objections to clauses that take several records together."""
    for part, name in _CLAUSES_OF_SEVERAL_RECORDS.items():
        clause = select.args.get(part)
        if not clause:
            continue
        place: exp.Expr = select
        if isinstance(clause, exp.Expr) and offset(clause) is not None:
            place = clause
        yield (f"{name} combines several records, which is only possible in gold", place)


def _aggregates_and_windows(select: exp.Select) -> Iterator[Objection]:
    for node in _own_nodes(select):
        name = aggregate(node)
        if isinstance(node, exp.Window):
            yield ("a window function reads other records, which is only possible in gold", node)
        elif name and not isinstance(node.parent, exp.Window):
            yield (f"{name} combines several records, which is only possible in gold", node)


def _orders(tree: exp.Select) -> Iterator[Objection]:
    for part, name in (("order", "ORDER"), ("sort", "SORT"), ("cluster", "CLUSTER"), ("distribute", "DISTRIBUTE")):
        if tree.args.get(part):
            yield (f"{name} BY has no effect on a stream, which only appends rows: sort in gold or when reading", tree)


def function_name(node: exp.Expr) -> str:
    """Return the name of a function's node as written, known to sqlglot or only to Spark; empty for other nodes."""
    if isinstance(node, exp.Anonymous):
        return node.name
    if isinstance(node, exp.Func):
        return node.sql_name()
    return ""


def aggregate(node: exp.Expr) -> str:
    """Return the name of a node's aggregate function, known to sqlglot or only to Spark; else empty."""
    if isinstance(node, exp.AggFunc):
        return node.sql_name().upper()
    if isinstance(node, exp.Anonymous) and node.name.lower() in _AGGREGATES:
        return node.name.upper()
    return ""


def generator(node: exp.Expr) -> str:
    """Return the name of a node's generator function, which makes several rows of one; else empty."""
    if isinstance(node, exp.Anonymous) and node.name.lower() in _GENERATORS:
        return node.name.upper()
    if isinstance(node, (exp.Explode, exp.Inline, exp.Stack)):
        return node.sql_name().upper()
    return ""


def _own_generators(select: exp.Select) -> Iterator[tuple[exp.Expr, str]]:
    """Yield the generators over a SELECT's own rows, without those in subqueries."""
    sources = [*items(select, "laterals"), *(join.this for join in items(select, "joins"))]
    nodes = [node for other in sources for node in other.walk(prune=lambda inner: isinstance(inner, exp.Query))]
    for node in (*_own_nodes(select), *nodes):
        if name := generator(node):
            yield node, name


def _own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the nodes of a SELECT's own expressions and WHERE, without those of subqueries."""
    for root in filter(None, [*select.expressions, select.args.get("where")]):
        for node in root.walk(prune=lambda inner: isinstance(inner, exp.Query)):
            if not isinstance(node, exp.Query):
                yield node


def _strange_rows(select: exp.Select, stream: exp.Table) -> Iterator[Objection]:
    """Yield the objections to joins that give rows without a record, or join by engine columns."""
    passed = stream.parent is select.args["from_"]
    for join in items(select, "joins"):
        joins_stream = join is stream.parent
        if joins_stream and (join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI")):
            yield f"{_kind(join)} JOIN STREAM(…) returns rows without a record: move STREAM(…) to FROM", stream
        elif passed and join.side in ("RIGHT", "FULL"):
            yield f"{_kind(join)} JOIN returns rows of a lookup without a record: use LEFT JOIN", join
        if join.method == "NATURAL":
            yield "NATURAL JOIN would also match reserved columns: use USING (…)", join
        passed = passed or joins_stream


def _kind(join: exp.Join) -> str:
    return " ".join(filter(None, [join.side, join.kind]))


def keeps_every_record(tree: exp.Query, stream: exp.Table) -> bool:
    """Return whether each record of the stream certainly gives a row: all constructs are known to keep records."""
    if not isinstance(tree, exp.Select) or not {"sample", "pivots"}.isdisjoint(clauses(stream)):
        return False
    if not clauses(tree).keys() <= _KEEPING or not _joins_keep_records(tree, stream):
        return False
    if not all(lateral.args.get("outer") for lateral in items(tree, "laterals")):
        return False
    # A generator gives no row for an empty array, and an unknown function may be one.
    return not any(isinstance(node, (exp.UDTF, exp.Explode, exp.Anonymous)) for node in _own_nodes(tree))


def _joins_keep_records(select: exp.Select, stream: exp.Table) -> bool:
    """Return whether no join takes a record away: those of the stream from the right, those after it from the left."""
    side = "RIGHT"
    if stream.parent is select.args["from_"]:
        side = "LEFT"
    for join in items(select, "joins"):
        joins_stream = join is stream.parent
        if (joins_stream or side == "LEFT") and (join.side != side or join.kind in ("SEMI", "ANTI")):
            return False
        if joins_stream:
            side = "LEFT"
    return True


def offset(node: exp.Expr) -> int | None:
    """Return the offset of a node's first identifier or function name in the text; None if sqlglot has none."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=None)


def is_of_lambda(node: exp.Column) -> bool:
    """Return whether a name is a parameter of a lambda around it, or a field of one; sqlglot leaves some as columns."""
    name, around = node.parts[0].name.lower(), node.find_ancestor(exp.Lambda)
    while around is not None:
        if name in {parameter.name.lower() for parameter in around.expressions}:
            return True
        around = around.find_ancestor(exp.Lambda)
    return False
