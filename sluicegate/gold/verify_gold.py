"""Verify gold: run each query again over the versions that the table was built from, and compare the rows.

No stored state is trusted, neither aggregate state nor refresh strategy. The table's last commit only gives the
versions that it was built from, which are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from sluicegate.console import ignore_line, inflect, quantity, time_left
from sluicegate.definition import GoldTable, Pipeline
from sluicegate.errors import SluicegateError
from sluicegate.flow import flows
from sluicegate.flow.batch import Batch
from sluicegate.flow.model import Flow, Progress, ProgressKind, name_of
from sluicegate.flow.progress import progress
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.flow.table_report import TableReport
from sluicegate.flow.verification.finding import Finding, FindingKind, FindingReason
from sluicegate.flow.verification.proofs import Proofs
from sluicegate.frames.difference.compare import Compared, compare, sample_rows
from sluicegate.frames.difference.equal_rows import excuse
from sluicegate.frames.unsteady import nodes
from sluicegate.gold.keys_since import KeysSince, KeysToCompare
from sluicegate.gold.recompute import Recomputation
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.spark.spark_errors import translate_error
from sluicegate.spark_sql.identifiers import quote_name

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
    """Return the relative tolerance of a sum of doubles in any order of addition.

    Rounding errors grow with the square root of the number of terms. Up to ten billion rows they are smaller than the
    share of one row, so that a missing row is always detected.
    """
    return (16 + 4 * sqrt(rows)) * 2.0**-52


def provable_tables(pipeline: Pipeline, lake: layout.Lake) -> list[str]:
    """Return the existing gold tables whose query can be run again."""
    return [
        name for name, table in pipeline.gold.items()
        if not table.mode and tables.delta_table(lake.table("gold", name)) is not None
    ]  # fmt: skip


def unprovable_findings(pipeline: Pipeline) -> list[Finding]:
    """Return findings for the gold tables whose query cannot be run again."""
    reason = "a streaming aggregation cannot be recomputed: which rows were too late depends on when they arrived"
    return [Finding(FindingKind.UNPROVED, name, reason) for name, table in pipeline.gold.items() if table.mode]


def prove(
    spark: SparkSession,
    pipeline: Pipeline,
    lake: layout.Lake,
    percent: float = 100,
    tell: Callable[[str], None] = ignore_line,
    proofs: Proofs | None = None,
) -> Iterator[Finding]:
    """Compare each gold table with the result of its query.

    Args:
        spark: the session; each table gets one of its own, for its views.
        pipeline: the definition.
        lake: the lake.
        percent: share of rows or groups to compare.
        tell: receives a line before each of several tables.
        proofs: proofs of former verifications; None to neither use nor record them.
    """
    names, started = provable_tables(pipeline, lake), time.monotonic()
    proofs = proofs or Proofs(lake, keeps=False)
    for number, name in enumerate(names):
        if len(names) > 1:
            remaining = time_left(time.monotonic() - started, number, len(names) - number)
            tell(f"  verifying {name}, {number + 1} of {len(names)} gold tables{remaining}")
        flow, table = flows.flows(pipeline, lake, "gold")[name], pipeline.gold[name]
        try:
            yield from _Proof(spark.newSession(), pipeline.name, flow, table, lake, percent, proofs).findings()
        except Exception as error:
            sentence = _sentence(translate_error(error, "gold", name, private=flow.private))
            yield Finding(FindingKind.UNPROVED, name, f"its query could not be run: {sentence}")


def _sentence(error: BaseException) -> str:
    """Return the message of an error in one line."""
    if not isinstance(error, SluicegateError):
        return str(error).split("\n")[0]
    return ": ".join(filter(None, [error.message, error.cause.split("\n")[0]]))


@dataclass
class _Proof:
    """Verification of one table."""

    spark: SparkSession
    pipeline: str
    flow: Flow
    table: GoldTable
    lake: layout.Lake
    percent: float
    proofs: Proofs

    def findings(self) -> Iterator[Finding]:
        target = tables.delta_table(self.flow.target)
        if target is None:
            return
        history, waiting = offsets.restore_history(target), progress(self.flow)
        if history.ours is None or history.ours.ours is None:
            yield self._finding(
                FindingKind.UNPROVED, "its log no longer records what it was built from", self._full_refresh
            )
        elif reason := self._why_outdated(waiting, history):
            sentence = f"the next run does a full refresh: {reason}"
            yield self._finding(FindingKind.UNPROVED, sentence, f"sluicegate run {self.pipeline}")
        else:
            yield from self._since_last(target, history.ours.ours)

    def _since_last(self, target: DeltaTable, info: CommitInfo) -> Iterator[Finding]:
        """Yield the findings for a table, without the parts that are proved and unchanged."""
        batch = self._batch(info)
        since = KeysSince(self.proofs, batch, self.table, target)
        if since.is_unchanged:
            yield self._unchanged_finding(since)
            return
        keys = since.affected_keys()
        if keys is not None and not keys.count:
            yield self._unchanged_finding(since)
            return
        if keys is not None:
            untold = "the change feeds of what its query reads tell of no others"
            sentence = f"its rows but those of {keys}, {since.proof}: {untold}"
            yield Finding(FindingKind.UNSEEN, self.flow.table, sentence, reason=FindingReason.PROVED_BEFORE)
        yield from self._findings_of(target, batch, since, keys)

    def _unchanged_finding(self, since: KeysSince) -> Finding:
        """Return the finding for a table without rows to compare."""
        since.keep(since.proof)
        sentence = f"its rows, {since.proof}: by their files and the change feeds of what it reads, nothing is new"
        return Finding(FindingKind.UNSEEN, self.flow.table, sentence, reason=FindingReason.PROVED_BEFORE)

    def _findings_of(
        self, target: DeltaTable, batch: Batch, since: KeysSince, keys: KeysToCompare | None
    ) -> Iterator[Finding]:
        """Yield the findings for rows of some keys or for all; record a proof if nothing is wrong."""
        differences = list(self._compare(target, batch, keys))
        if differences:
            yield from differences
            return
        since.keep(since.proof if keys is not None else None)
        yield self._proved_finding(target, keys)

    def _proved_finding(self, target: DeltaTable, keys: KeysToCompare | None) -> Finding:
        rows = "each row is"
        if keys is not None:
            rows = f"each row of {keys}, which later changes affect, is"
        elif self.percent < 100:
            rows = f"each row of a sample of {self.percent:g} % is"
        sentence = f"{rows} what its query returns over the versions that it was built from, run again by Spark"
        return Finding(FindingKind.PROVED, self.flow.table, sentence, version=target.version())

    def _why_outdated(self, waiting: Progress, history: offsets.RestoreHistory) -> str:
        """Return why the table does not have the current definition and sources; empty if it does."""
        info = log.info_of(history.ours)
        if history.news:
            return "it was restored"
        if waiting.kind == ProgressKind.BLOCKED:
            return waiting.why
        if info.fingerprint != self.flow.fingerprint:
            return "its definition changed"
        if waiting.since < 0:
            return f"{name_of(self.flow.source)} is not the table that it was filled from"
        recorded, today = _table_ids(info.inputs), _table_ids(waiting.stamps)
        replaced = sorted(name for name in {*recorded, *today} if recorded.get(name) != today.get(name))
        if replaced:
            return f"{', '.join(replaced)} is not the table that it was filled from"
        return ""

    def _compare(self, target: DeltaTable, batch: Batch, keys: KeysToCompare | None) -> Iterator[Finding]:
        """Yield findings on rows that differ from the query's."""
        recomputation = Recomputation(batch, self.flow.table, self.table, keys)
        due = recomputation.plain_rows()
        stored = self.spark.read.format("delta").option("versionAsOf", target.version()).load(self.flow.target)
        if odd := {c.lower() for c in due.columns} ^ {c.lower() for c in stored.columns}:
            sentence = f"its columns differ from those of its query: {', '.join(sorted(odd))}"
            yield self._finding(FindingKind.WRONG, sentence, self._full_refresh)
            return
        stored, exact = recomputation.stored_rows(stored), recomputation.exact_rows()
        if exact is not None and (exact[1] is not None or _is_steady(exact[0])):
            compared = self._difference(stored, exact[0], 0)
            if compared.count:
                yield self._difference_finding(compared, due)
            else:
                yield from self._compare_with_exact_sums(stored, due, exact[1])
            return
        compared = self._difference(stored, due, self._tolerance(due))
        if not compared.count:
            return
        if exact is None:
            yield self._difference_finding(compared, due)
            return
        recompared = self._difference(stored, exact[0], self._slack)
        yield self._difference_finding(recompared, due) if recompared.count else self._excused_finding(compared)

    def _compare_with_exact_sums(
        self, stored: DataFrame, due: DataFrame, rounded: set[str] | None
    ) -> Iterator[Finding]:
        """Yield findings for a table whose rows equal those of sums without rounding.

        Args:
            stored: the table.
            due: the rows with Spark's own sums.
            rounded: the columns that may differ, as they depend on sums; all if unknown.
        """
        compared = self._difference(stored, due, self._slack)
        if not compared.count:
            return
        summed = {column.lower() for column in rounded or stored.columns}
        exact = [column for column in stored.columns if column.lower() not in summed]
        if exact:
            lower = {column.lower() for column in exact}
            due_exact = due.select(*[quote_name(column) for column in due.columns if column.lower() in lower])
            difference = self._difference(stored.select(*map(quote_name, exact)), due_exact, self._slack)
            if difference.count:
                yield self._difference_finding(difference, due)
                return
        yield self._excused_finding(compared)

    def _excused_finding(self, compared: Compared) -> Finding:
        rows = f"{quantity(compared.count, 'row')} {inflect(compared.count, 'equals', 'equal')}"
        sentence = f"{rows} those of sums without rounding; Spark's own sums, which depend on the order of rows, differ"
        return self._finding(FindingKind.UNPROVED, sentence)

    def _difference_finding(self, compared: Compared, due: DataFrame) -> Finding:
        rows = f"{quantity(compared.count, 'row')} {inflect(compared.count, 'differs', 'differ')}"
        sentence = f"{rows} from the result of its query"
        if self.percent < 100:
            sentence += f" in a sample of {self.percent:g} %"
        if compared.others:
            sentence += f": {'; '.join(map(str, compared.others))}"
            if compared.count > len(compared.others):
                sentence += ", …"
        if reason := excuse(due):
            return self._finding(FindingKind.UNPROVED, f"{reason}; {sentence}")
        return self._finding(FindingKind.WRONG, sentence, self._full_refresh)

    @property
    def _slack(self) -> float:
        return slack(self._read)

    def _tolerance(self, due: DataFrame) -> float | None:
        """Return the relative tolerance of a query's doubles; None if not even the sign of zero may differ."""
        if self.table.transform is not None:  # what a function does is not in the plan
            return self._slack
        parts = list(nodes(due._jdf.queryExecution().analyzed()))
        functions = {_function(node) for node in parts if node.getClass().getSimpleName() == "AggregateExpression"}
        words = {node.getClass().getSimpleName() for node in parts}
        if not functions <= STEADY or words & MACHINE:
            return self._slack
        if functions or words & ZEROS:
            return 0
        return None

    def _difference(self, stored: DataFrame, due: DataFrame, by: float | None) -> Compared:
        kinds = {field.name: field.dataType for field in stored.schema}
        spelled = {name.lower(): name for name in kinds}
        due = due.toDF(*[spelled[name.lower()] for name in due.columns])
        keys = [key for key in self._keys if key in kinds]
        stored_sample, due_sample = (sample_rows(frame, kinds, keys, self.percent) for frame in (stored, due))
        return compare(stored_sample, due_sample, keys, by, values=not self.flow.private)

    @cached_property
    def _keys(self) -> list[str]:
        """Key columns of the table, as far as the query shows them."""
        grouped = None
        if self.flow.refresh_strategy:
            grouped = self.flow.refresh_strategy.grouped
        if grouped and grouped.is_locatable:
            return [grouped.keys[number] for number in sorted(grouped.keys)]
        return []

    def _batch(self, info: CommitInfo) -> Batch:
        """Return a batch of all rows of the versions that the table was built from."""
        stamps = dict(info.inputs)
        versions = {name: int(stamp.rpartition("@")[2]) for name, stamp in stamps.items()}
        recorded = Progress(ProgressKind.FULL_REFRESH, -1, info["until"], versions, stamps)
        self._read = tables.rows(tables.delta_table(self.flow.source, recorded.until))
        for name, version in versions.items():
            self._read += tables.rows(tables.delta_table(self.flow.inputs[name], version))
        # Its query reads the tables themselves, at these versions.
        nothing, report = Delivery(self.spark.range(0), self.flow), TableReport(self.flow.table, "gold")
        return Batch(nothing, self._read, True, False, recorded, self.flow, report, {})

    @property
    def _full_refresh(self) -> str:
        return f"sluicegate run {self.pipeline} --full-refresh {self.flow.table}"

    def _finding(self, kind: FindingKind, sentence: str, mend: str = "") -> Finding:
        return Finding(kind, self.flow.table, sentence, mend)


def _table_ids(stamps: Mapping[str, Any]) -> dict[str, str]:
    """Return the table ID of each input from its stamp."""
    return {name: str(stamp).rpartition("@")[0] for name, stamp in stamps.items()}


def _is_steady(frame: DataFrame) -> bool:
    """Return whether no aggregate function adds numbers in the order of rows."""
    node = frame._jdf.queryExecution().analyzed()
    while node.getClass().getSimpleName() != "Aggregate":
        if node.children().size() != 1 and not _selects_rows(node):
            return False
        node = node.children().apply(0)
    return all(name in STEADY for name in _functions(node, top=True))


def _selects_rows(node: Any) -> bool:
    """Return whether a plan node filters its first child by a semi join with the keys to compare."""
    return bool(node.getClass().getSimpleName() == "Join" and node.joinType().sql() == "LEFT SEMI")


def _functions(node: Any, *, top: bool = False) -> Iterator[str]:
    """Yield the class names of the aggregate functions in the expressions of an aggregation."""
    if node.getClass().getSimpleName() == "AggregateExpression":
        yield _function(node)
        return
    if top:
        parts = node.aggregateExpressions()
    else:
        parts = node.children()
    for number in range(parts.size()):
        yield from _functions(parts.apply(number))


def _function(node: Any) -> str:
    """Return the class name of an aggregate function; an exact sum counts as a count."""
    function = node.aggregateFunction()
    name = str(function.getClass().getSimpleName())
    if name == "Sum" and function.dataType().simpleString() not in ("double", "float"):
        return "Count"
    return name
