"""Proof of gold: each query is run again over what it reads, as of the table's offset, and the rows are compared.

No state of ours is trusted: neither aggregate state nor refresh strategy. The table's last commit says only which
versions it was made of, and these are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

from sluicegate.console import silent, time_left
from sluicegate.errors import SluicegateError
from sluicegate.flow import flows
from sluicegate.flow.batch import Batch
from sluicegate.flow.delivery import Delivery
from sluicegate.flow.finding import Finding
from sluicegate.flow.model import Progress, name_of
from sluicegate.flow.progress import progress
from sluicegate.flow.proofs import TARGET, Proofs, states_of
from sluicegate.flow.report import TableReport
from sluicegate.frames.compare import Compared, compare, sampled
from sluicegate.frames.equal_rows import excuse
from sluicegate.frames.unsteady import nodes
from sluicegate.lake import layout, offsets, tables
from sluicegate.spark.spark_errors import readable
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from sluicegate.definition import GoldTable, Pipeline
    from sluicegate.flow.model import Flow

# Functions that do not depend on the order of the rows; `any_value`, a `First`, stands for what each group has once.
STEADY = {"Count", "CountIf", "Min", "Max", "AnyValue", "First", "BoolAnd", "BoolOr", "HyperLogLogPlusPlus"}

# Plan nodes that take 0.0 and -0.0 for equal, so that the result may be either.
ZEROS = {"Aggregate", "Distinct", "Deduplicate", "Intersect", "Except", "Greatest", "Least", "ArrayMin", "ArrayMax",
         "ArrayDistinct", "ArrayUnion", "ArrayIntersect", "ArrayExcept", "ArraySort", "SortArray"}  # fmt: skip

# Functions of Java's Math, whose last digit may differ between processors.
MACHINE = {"Sin", "Cos", "Tan", "Cot", "Sec", "Csc", "Asin", "Acos", "Atan", "Atan2", "Sinh", "Cosh", "Tanh", "Asinh",
           "Acosh", "Atanh", "Cbrt", "Hypot", "Exp", "Expm1", "Logarithm", "Log", "Log10", "Log1p", "Log2",
           "Pow"}  # fmt: skip


def slack(rows: int) -> float:
    """Relative tolerance of a sum of so many doubles that may be added in any order.

    Rounding errors come to the square root of their number. Up to ten billion rows it is less than one of them is of
    the whole, so that a row which is missing is always seen.
    """
    return (16 + 4 * sqrt(rows)) * 2.0**-52


def provable(pipeline: Pipeline, at: layout.Lake) -> list[str]:
    """Gold tables that exist and whose query can be run again."""
    return [
        name for name, table in pipeline.gold.items()
        if not table.mode and tables.delta_table(at.table("gold", name)) is not None
    ]  # fmt: skip


def unprovable(pipeline: Pipeline) -> list[Finding]:
    """Findings for the gold tables whose query cannot be run again."""
    why = "a streaming aggregation cannot be recomputed: which rows were too late depends on when they arrived"
    return [Finding("unproved", name, why) for name, table in pipeline.gold.items() if table.mode]


def prove(
    spark: SparkSession,
    pipeline: Pipeline,
    at: layout.Lake,
    percent: float = 100,
    tell: Callable[[str], None] = silent,
    proofs: Proofs | None = None,
) -> Iterator[Finding]:
    """Compares each gold table with the result of its query.

    Args:
        spark: the session; each table gets one of its own, for its views.
        pipeline: the definition.
        at: the lake.
        percent: how many of the rows, or groups, are compared.
        tell: takes a line before each of several tables.
        proofs: what former verifications have proved; None where that is neither asked for nor recorded.
    """
    names, began = provable(pipeline, at), time.monotonic()
    proofs = proofs or Proofs(at, keeps=False)
    for number, name in enumerate(names):
        if len(names) > 1:
            left = time_left(time.monotonic() - began, number, len(names) - number)
            tell(f"  verifying {name}, {number + 1} of {len(names)} gold tables{left}")
        flow, table = flows.flows(pipeline, at, "gold")[name], pipeline.gold[name]
        try:
            yield from _Proof(spark.newSession(), pipeline.name, flow, table, at, percent, proofs).findings()
        except Exception as raised:
            error = readable(raised, "gold", name, private=flow.private)
            why = error.message if isinstance(error, SluicegateError) else str(error).split("\n")[0]
            cause = error.cause.split("\n")[0] if isinstance(error, SluicegateError) else ""
            yield Finding(
                "unproved", name, f"its query could not be run again: {': '.join(filter(None, [why, cause]))}"
            )


@dataclass
class _Proof:
    """The proof of one table."""

    spark: SparkSession
    pipeline: str
    flow: Flow
    table: GoldTable
    at: layout.Lake
    percent: float
    proofs: Proofs

    def findings(self) -> Iterator[Finding]:
        target = tables.delta_table(self.flow.target)
        if target is None:
            return
        line, now = offsets.lineage(target), progress(self.flow)
        if line.ours is None or line.ours.ours is None:
            yield self._found("unproved", "its log no longer tells what it was made from", self._full_refresh)
        elif why := self._other(now, line):
            yield self._found("unproved", f"the next run makes a full refresh: {why}", self._run)
        else:
            yield from self._since_last(target, line.ours.ours)

    def _since_last(self, target: DeltaTable, made: dict[str, Any]) -> Iterator[Finding]:
        """Findings for a table, which is compared unless it is what the last verification has proved."""
        definition = [self.flow.fingerprint, self.flow.rules, self.flow.key, made.get("inputs"), made["until"]]
        states = states_of({TARGET: target}) if self.proofs.used else None
        proof = self.proofs.last("gold", self.flow.table, definition)
        if proof is not None and proof.states == states:
            self.proofs.keep("gold", self.flow.table, definition, states, proof)
            what = f"its rows, {proof}: neither they nor the versions that they were made of have changed"
            yield Finding("unseen", self.flow.table, what, reason="proved-before")
            return
        found = list(self._compared(target, made))
        if states is not None and not found:
            self.proofs.keep("gold", self.flow.table, definition, states, None)
        yield from found or [self._proved(target)]

    def _proved(self, target: DeltaTable) -> Finding:
        rows = "each row is" if self.percent >= 100 else f"each row of a sample of {self.percent:g} % is"
        what = f"{rows} what its query gives over the versions that it was made of, run again by Spark"
        return Finding("proved", self.flow.table, what, version=target.version())

    def _other(self, now: Progress, line: offsets.Lineage) -> str:
        """Reason why the table is not of today's definition and today's sources; empty if it is."""
        made = (line.ours.ours or {}) if line.ours else {}
        if line.news:
            return "it was restored"
        if now.kind == "blocked":
            return now.why
        if made.get("fingerprint") != self.flow.fingerprint:
            return "its definition changed"
        if now.since < 0:
            return f"{name_of(self.flow.source)} is not the table that it was filled from"
        was = {name: str(stamp).rpartition("@")[0] for name, stamp in made.get("inputs", {}).items()}
        of = {name: stamp.rpartition("@")[0] for name, stamp in now.stamps.items()}
        other = sorted(name for name in {*was, *of} if was.get(name) != of.get(name))
        return f"{', '.join(other)} is not the table that it was filled from" if other else ""

    def _compared(self, target: DeltaTable, made: dict[str, Any]) -> Iterator[Finding]:
        from sluicegate.gold import recompute

        batch = self._batch(made)
        due = recompute.plainly(batch, self.flow.table, self.table, self.at)
        stored = self.spark.read.format("delta").option("versionAsOf", target.version()).load(self.flow.target)
        if odd := {c.lower() for c in due.columns} ^ {c.lower() for c in stored.columns}:
            yield self._found(
                "wrong", f"its columns are not those of its query: {', '.join(sorted(odd))}", self._full_refresh
            )
            return
        exact = recompute.rounded_once(batch, self.flow.table, self.table, self.at)
        if exact is not None and (exact[1] is not None or _is_steady(exact[0])):
            found = self._difference(stored, exact[0], 0)
            yield from [self._differing(found, due)] if found.count else self._of_exact_sums(stored, due, exact[1])
            return
        found = self._difference(stored, due, self._allowed(due))
        if found.count and exact is not None:
            recompared = self._difference(stored, exact[0], self._slack)
            yield self._differing(recompared, due) if recompared.count else self._excused(found)
        elif found.count:
            yield self._differing(found, due)

    def _of_exact_sums(self, stored: DataFrame, due: DataFrame, rounded: set[str] | None) -> Iterator[Finding]:
        """Findings for a table that has exactly the rows that sums without rounding make.

        Args:
            stored: the table.
            due: the rows that Spark's own sums make.
            rounded: the columns that may differ, as they are made of sums; any if it is not known which.
        """
        found = self._difference(stored, due, self._slack)
        may = {column.lower() for column in rounded or stored.columns}
        others = [column for column in stored.columns if column.lower() not in may]
        if found.count and others:
            spelled = {column.lower() for column in others}
            same = due.select(*[quoted(column) for column in due.columns if column.lower() in spelled])
            if (other := self._difference(stored.select(*map(quoted, others)), same, self._slack)).count:
                yield self._differing(other, due)
                return
        if found.count:
            yield self._excused(found)

    def _excused(self, found: Compared) -> Finding:
        rows = f"{found.count:,} {'row equals' if found.count == 1 else 'rows equal'}"
        said = f"{rows} those of sums without rounding; Spark's own sums, which depend on the order of rows, differ"
        return self._found("unproved", said)

    def _differing(self, found: Compared, due: DataFrame) -> Finding:
        of = f" in a sample of {self.percent:g} %" if self.percent < 100 else ""
        rows = f"{found.count:,} {'row differs' if found.count == 1 else 'rows differ'} from its query{of}"
        if found.others:
            rows += f": {'; '.join(map(str, found.others))}{', …' if found.count > len(found.others) else ''}"
        if why := excuse(due):
            return self._found("unproved", f"{why}; {rows}")
        return self._found("wrong", rows, self._full_refresh)

    @property
    def _slack(self) -> float:
        return slack(self._read)

    def _allowed(self, due: DataFrame) -> float | None:
        """Relative tolerance of a query's doubles; None if not even a zero's sign may differ."""
        if self.table.transform is not None:  # what a function does is not in the plan
            return self._slack
        parts = list(nodes(due._jdf.queryExecution().analyzed()))
        functions = {_function(node) for node in parts if node.getClass().getSimpleName() == "AggregateExpression"}
        words = {node.getClass().getSimpleName() for node in parts}
        if not functions <= STEADY or words & MACHINE:
            return self._slack
        return 0 if functions or words & ZEROS else None

    def _difference(self, stored: DataFrame, due: DataFrame, by: float | None) -> Compared:
        kinds = {field.name: field.dataType for field in stored.schema}
        spelled = {name.lower(): name for name in kinds}
        due = due.toDF(*[spelled[name.lower()] for name in due.columns])
        keys = [key for key in self._keys if key in kinds]
        there, should = (sampled(frame, kinds, keys, self.percent) for frame in (stored, due))
        return compare(there, should, keys, by, values=not self.flow.private)

    @cached_property
    def _keys(self) -> list[str]:
        """Key columns of the table, as far as its query tells."""
        grouped = self.flow.refresh_strategy.grouped if self.flow.refresh_strategy else None
        return [grouped.keys[number] for number in sorted(grouped.keys)] if grouped and grouped.located else []

    def _batch(self, made: dict[str, Any]) -> Batch:
        """Batch of all rows of the versions that the table says it was made of."""
        stamps = {name: str(stamp) for name, stamp in made.get("inputs", {}).items()}
        versions = {name: int(stamp.rpartition("@")[2]) for name, stamp in stamps.items()}
        then = Progress("whole", -1, int(made["until"]), versions, stamps)
        of = [
            (self.flow.source, then.until),
            *((self.flow.inputs[name], version) for name, version in versions.items()),
        ]
        self._read = sum(tables.rows(tables.delta_table(*one)) for one in of)
        rows = self.spark.read.format("delta").option("versionAsOf", then.until).load(self.flow.source)
        all_rows, report = Delivery(rows, self.flow), TableReport(self.flow.table, "gold")
        return Batch(all_rows, self._read, True, False, then, self.flow, report, {})

    @property
    def _run(self) -> str:
        return f"sluicegate run {self.pipeline}"

    @property
    def _full_refresh(self) -> str:
        return f"sluicegate run {self.pipeline} --full-refresh {self.flow.table}"

    def _found(self, kind: Any, what: str, mend: str = "") -> Finding:
        return Finding(kind, self.flow.table, what, mend)


def _is_steady(frame: DataFrame) -> bool:
    """Whether no function of an aggregation adds numbers in the order in which it meets the rows."""
    node = frame._jdf.queryExecution().analyzed()
    while node.getClass().getSimpleName() != "Aggregate":
        if node.children().size() != 1:
            return False
        node = node.children().apply(0)
    return all(name in STEADY for name in _functions(node, top=True))


def _functions(node: Any, *, top: bool = False) -> Iterator[str]:
    """Class names of the aggregate functions in the expressions of an aggregation."""
    if node.getClass().getSimpleName() == "AggregateExpression":
        yield _function(node)
        return
    parts = node.aggregateExpressions() if top else node.children()
    for number in range(parts.size()):
        yield from _functions(parts.apply(number))


def _function(node: Any) -> str:
    """Class name of the function of an aggregate expression; a sum of numbers that are exact is a count."""
    function = node.aggregateFunction()
    name = str(function.getClass().getSimpleName())
    return "Count" if name == "Sum" and function.dataType().simpleString() not in ("double", "float") else name
