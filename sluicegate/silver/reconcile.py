"""Reconcile a silver batch: each record's disposition is proved by identity before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from sluicegate.definition import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.errors import AccountingError, FanOut, SluicegateError, Where
from sluicegate.flow.table_report import TableReport
from sluicegate.frames.rules import rejected
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.frames.rules.row_rules import RowRules, Tally
from sluicegate.schema.columns import FLOW, RECORD
from sluicegate.schema.typed_values import has_odd_keys
from sluicegate.silver import several_flows
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION, SET_ASIDE, Disposition
from sluicegate.silver.keys.deduplicate import REPLACED, replaced_identity
from sluicegate.silver.provenance import SOURCE
from sluicegate.silver.side_tables import rescued
from sluicegate.spark_sql.identifiers import quote_name

# What a report shows of a personal value.
_MASK = "***"


@dataclass(frozen=True)
class Reconciliation:
    """Row counts of a batch by disposition.

    Attributes:
        read: number of records in the batch.
        sums: row counts by disposition, with all ``rows``, ``records`` that gave one, and those that ``replaced`` one.
        failed: number of rows that broke each expectation.
        sample: a quarantined row with the expectations that it broke; None without one.
        flows: reconciliation of each flow by name, if several fill the table.
    """

    evaluator: RowEvaluator
    read: int
    sums: dict[str, int]
    failed: dict[str, int]
    sample: dict[str, Any] | None
    flows: Mapping[str, Reconciliation] = field(default_factory=dict)

    @classmethod
    def from_rows(
        cls, evaluator: RowEvaluator, rows: DataFrame, read: int, by_flow: Mapping[str, int] | None = None
    ) -> Reconciliation:
        """Count rows by disposition in one pass, and refuse a batch that does not reconcile.

        Args:
            evaluator: the evaluator of the rows.
            rows: the evaluated rows.
            read: number of records behind the rows, counted by the source's log or by identity.
            by_flow: number of records of each flow, if several fill the table: each must reconcile by itself.

        Raises:
            FanOut: the query returns several rows for one record.
            SluicegateError: the table has several rows with the key of a record.
            AccountingError: there are fewer or more records than were read.
        """
        aggregates = _Aggregates.from_evaluator(evaluator, rows)
        if not evaluator.table.flows_or_branches:
            reconciliation = aggregates.to_reconciliation(rows.selectExpr(*aggregates.expressions).collect()[0], read)
            reconciliation._demand_sums(rows, evaluator.table)
        else:
            reconciliation = cls._from_flows(aggregates, rows, read, by_flow or {})
        if reconciliation.sums["unfit"]:
            unfit = rescued.counts(rows, [*aggregates.broken])
            return replace(reconciliation, failed=reconciliation.failed | unfit)
        return reconciliation

    @classmethod
    def _from_flows(
        cls, aggregates: _Aggregates, rows: DataFrame, read: int, read_by_flow: Mapping[str, int]
    ) -> Reconciliation:
        """Return the counts of each flow and their sums, including flows whose records gave no row."""
        of_flow = several_flows.flow_of(F.col(FLOW)).alias("_flow")
        groups = rows.groupBy(of_flow).agg(*map(F.expr, aggregates.expressions)).collect()
        counts: dict[str, Sequence[Any]] = {group[0]: group[1:] for group in groups}
        counts |= {name: aggregates.empty_values for name in read_by_flow if name not in counts}
        flows = {
            name: aggregates.to_reconciliation(values, read_by_flow.get(name, 0)) for name, values in counts.items()
        }
        for name, reconciliation in flows.items():
            maker = aggregates.evaluator.table.flows_or_branches[name]
            reconciliation._demand_sums(rows.where(of_flow == name), maker)
        nothing = aggregates.to_reconciliation(aggregates.empty_values, read)
        return replace(_sum_counts(nothing, flows.values()), flows=flows)

    def add_rows(self, rows: DataFrame) -> Reconciliation:
        """Return the reconciliation with more rows, of records that had none."""
        read = {name: reconciliation.read for name, reconciliation in self.flows.items()}
        return self.from_rows(self.evaluator, rows, self.read, read)

    @property
    def filtered_records(self) -> int:
        """Number of records that the query filtered out: by a WHERE, an inner join, or an array without elements."""
        return self.read - self.sums["records"]

    @property
    def set_aside_count(self) -> int:
        """Number of records or rows that are set aside."""
        return sum(self.sums[disposition] for disposition in SET_ASIDE) + self.sums["replaced"] + self.filtered_records

    def fill(self, report: TableReport) -> None:
        """Set the counts in a run's report."""
        report.read, report.written = self.read, self.sums[Disposition.WRITTEN]
        report.quarantined = self.sums[Disposition.QUARANTINED]
        report.duplicates = self.sums[Disposition.DUPLICATE] + self.sums[Disposition.DELETED]
        report.dropped = self._dropped_count
        if self.evaluator.many:
            report.rows, report.no_rows = self.sums["rows"], self.filtered_records
        report.flows = self._counts_of_flows()
        report.expectations = self.evaluator.rules.tally(self.failed, self.sums["rows"])
        report.warnings = self.warnings
        report.mixed = self.evaluator.leaves_former_rows
        report.samples = [*filter(None, [self.sample])]

    @property
    def _dropped_count(self) -> int:
        """Number of dropped rows, if records give many, else of dropped and filtered records."""
        if self.evaluator.many:
            return self.sums[Disposition.DROPPED]
        return self.sums[Disposition.DROPPED] + self.filtered_records

    def facts(self) -> dict[str, Any]:
        """Return the counts as commit metadata."""
        facts: dict[str, Any] = self._counts()
        facts["expectations"] = self.evaluator.rules.tally(self.failed, self.sums["rows"])
        if warnings := self.warnings:
            facts["warnings"] = warnings
        facts |= self.evaluator.definition_facts
        if self.flows:
            facts["flows"] = self._counts_of_flows()
        return facts

    def _counts_of_flows(self) -> dict[str, dict[str, int]]:
        return {name: reconciliation._counts() for name, reconciliation in self.flows.items()}

    def _counts(self) -> dict[str, int]:
        sums = self.sums
        counts = {
            "read": self.read, "written": sums[Disposition.WRITTEN], "quarantined": sums[Disposition.QUARANTINED],
            "dropped": self._dropped_count, "duplicates": sums[Disposition.DUPLICATE] + sums[Disposition.DELETED],
        }  # fmt: skip
        if self.evaluator.many:
            counts |= {"rows": sums["rows"], "no_rows": self.filtered_records}
        return counts

    def _demand_sums(self, rows: DataFrame, maker: SilverTable | SilverFlow) -> None:
        name, read, records = self.evaluator.name, self.read, self.sums["records"]
        exact, most_rows = _is_one_to_one(maker), records
        if exact:
            most_rows = read
        if not self.evaluator.many and self.sums["rows"] > most_rows:
            self._demand_one_row_each(rows, maker, most_rows)
        if records > read or (exact and records != read):
            of_source = ""
            if self.evaluator.table.flows_or_branches:
                of_source = f" of {maker.stream}"
            raise AccountingError(
                f"{name} read {read:,} records{of_source} but accounts for {records:,}",
                where=Where(table=name),
                hint="please report this: nothing was written, so nothing is lost",
            )

    def _demand_one_row_each(self, rows: DataFrame, maker: SilverTable | SilverFlow, records: int) -> None:
        """Raise an error with an example if a record gave several rows."""
        name, example = self.evaluator.name, self._fanned_out_record(rows)
        if example is None:
            return
        if example["holders"] > 1:
            raise self._ambiguous_key_error(example)
        raise FanOut(
            f"the query of {name} returns {self.sums['rows']:,} rows for {records:,} records",
            where=Where(table=name, file=maker.sql_file),
            cause=f"record {example['_chunk']}/{example['_pos']} gave {example['count']} rows",
            hint="a joined lookup must have one row for each key: give it `keys`, or use apply_changes; "
            "if a record should give several rows, set `rows: many`",
        )

    def _fanned_out_record(self, rows: DataFrame) -> Row | None:
        """Return a record with several rows, if any: identity, ``count``, number of stored rows with its key."""
        was = [column for column in replaced_identity(self.evaluator.row_id) if column in rows.columns]
        holders = F.lit(0)
        if was:
            holders = F.count_distinct(*map(F.col, was))
        by_record = rows.groupBy(*self.evaluator.record_id).agg(F.count("*").alias("count"), holders.alias("holders"))
        return by_record.where("count > 1").orderBy(F.desc("holders")).first()

    def _ambiguous_key_error(self, example: Row) -> SluicegateError:
        """Return the error for a table with several rows of one key, none of which can be compared."""
        flow, keys = self.evaluator.batch.flow, ", ".join(self.evaluator.keys)
        command = f"sluicegate run --full-refresh {flow.table}"
        if flow.stored_rows is not None:
            command = flow.stored_rows.command
        return SluicegateError(
            f"{flow.table} has {example['holders']:,} rows with the {keys} of one new record, but can have only one",
            where=Where(table=flow.table, file=flow.target),
            cause=f"the current definition never writes two rows with one key: another program may have written to the "
            f"table; the record is {example['_chunk']}/{example['_pos']}",
            hint=f"nothing was written; `{command}` rebuilds the table from all records of its source",
        )

    @property
    def _rules_and_tally(self) -> tuple[RowRules, Tally]:
        """Expectations of the definition, and the number of rows that broke each."""
        rules = RowRules(self.evaluator.table.expectations)
        return rules, Tally(self.sums["rows"], {name: self.failed[name] for name in rules.expectations})

    @property
    def warnings(self) -> list[str]:
        """Warnings on dropped columns, and on the expectations that more rows broke than the definition allows."""
        rules, tally = self._rules_and_tally
        return [*self.evaluator.remarks, *rules.warnings(tally)]

    def demand_rules(self, rows: DataFrame) -> None:
        """Refuse a batch for the rules that its rows break.

        Args:
            rows: the reconciled rows.

        Raises:
            ExpectationFailed: rows break an ``expect_or_fail``, or too many another expectation; those that did are
                in ``{table}_rejected``.
        """
        rules, tally = self._rules_and_tally
        batch, evaluator = self.evaluator.batch, self.evaluator

        def failing_rows() -> DataFrame:
            columns = (*evaluator.outputs, *evaluator.row_id)
            provenance = []
            if "source_file" not in columns:
                provenance.append(F.col(SOURCE).alias("source_file"))
            return rows.select(*map(quote_name, columns), *provenance, BROKEN)

        of_rules, of_values = rules.refusal(tally, failing_rows), None
        if evaluator.table.rescued == "fail":
            unfit = {name: self.failed[name] for name in evaluator.rules.unfit if self.failed.get(name)}
            of_values = rescued.refusal(unfit, failing_rows, of_rules)
        if refusals := [*filter(None, (of_rules, of_values))]:
            writes = batch.choice is None or not batch.choice.validate
            rejected.refuse(batch, refusals, {"expectations": tally.facts()}, writes=writes)


@dataclass(frozen=True)
class _Aggregates:
    """SQL aggregates over evaluated rows for a reconciliation.

    Attributes:
        evaluator: the evaluator of the rows.
        sums: aggregates of ``Reconciliation.sums``.
        broken: aggregates of the rows that broke each expectation.
        sample: a quarantined row.
    """

    evaluator: RowEvaluator
    sums: Mapping[str, str]
    broken: Mapping[str, str]
    sample: str

    @classmethod
    def from_evaluator(cls, evaluator: RowEvaluator, rows: DataFrame) -> _Aggregates:
        sums = {str(disposition): f"count_if({DISPOSITION} = '{disposition}')" for disposition in Disposition}
        sums |= {"rows": "count(1)", "records": "count(1)", "replaced": "0L", "unfit": "0L"}
        if evaluator.many or not all(map(_is_one_to_one, evaluator.table.makers.values())):
            sums["records"] = f"count(DISTINCT {', '.join(evaluator.record_id)})"
        if REPLACED[0] in rows.columns:
            sums["replaced"] = f"count_if({DISPOSITION} = '{Disposition.WRITTEN}' AND {REPLACED[0]} IS NOT NULL)"
        broken = evaluator.rules.counts()
        if evaluator.rules.unfit:
            sums["unfit"] = rescued.unfit_count_sql([*broken])
        kinds = {field.name: field.dataType for field in rows.schema}
        values = [_sample_column(column, kinds[column]) for column in evaluator.outputs]
        values += [quote_name(column) for column in (SOURCE, BROKEN, RECORD) if column in kinds]
        sample = f"any_value(struct({', '.join(values)})) FILTER (WHERE {DISPOSITION} = '{Disposition.QUARANTINED}')"
        return cls(evaluator, sums, broken, sample)

    @property
    def expressions(self) -> list[str]:
        return [*self.sums.values(), *self.broken.values(), self.sample]

    @property
    def empty_values(self) -> list[Any]:
        """Values of the expressions over no rows."""
        return [0] * (len(self.sums) + len(self.broken)) + [None]

    def to_reconciliation(self, values: Sequence[Any], read: int) -> Reconciliation:
        """Return the reconciliation from the values of the expressions and the number of records read."""
        sums = dict(zip(self.sums, values, strict=False))
        failed = dict(zip(self.broken, values[len(sums) : -1], strict=True))
        return Reconciliation(self.evaluator, read, sums, failed, _sample(self.evaluator, values[-1]))


def _is_one_to_one(maker: SilverTable | SilverFlow) -> bool:
    """Return whether each record certainly gives one row."""
    if maker.query is not None:
        return maker.query.keeps_every_record
    return not maker.is_python


def _sum_counts(empty: Reconciliation, flows: Iterable[Reconciliation]) -> Reconciliation:
    """Add up the counts of some flows.

    Args:
        empty: a reconciliation without rows, with the records read by all of them.
        flows: reconciliations of the flows.
    """
    sums, failed, sample = dict(empty.sums), dict.fromkeys(empty.failed, 0), None
    for flow in flows:
        sums = {name: count + flow.sums[name] for name, count in sums.items()}
        failed = {name: count + flow.failed[name] for name, count in failed.items()}
        sample = sample or flow.sample
    return replace(empty, sums=sums, failed=failed, sample=sample)


def _sample_column(column: str, kind: DataType) -> str:
    """Return a column of a sample, as Spark's text if Python may not represent the value.

    Python has no times before the year 1 and after 9999, and no map with lists as keys.
    """
    if has_odd_keys(kind) or any(word in kind.simpleString() for word in ("date", "timestamp")):
        return f"CAST({quote_name(column)} AS STRING) AS {quote_name(column)}"
    return quote_name(column)


def _sample(evaluator: RowEvaluator, row: Row | None) -> dict[str, Any] | None:
    """Return a quarantined row for the report: only columns of its broken expectations, personal ones masked.

    A value that did not convert is shown as it landed, and masked if any column of the table is personal: which of them
    is made of it is not known.
    """
    if row is None:
        return None
    broken = " ".join(_text_of(rule, evaluator.rules.conditions) for rule in row[BROKEN])
    values = {column: row[column] for column in evaluator.outputs if column in broken}
    personal = {column.lower() for column in evaluator.table.pii}
    values |= {column: _MASK for column in values if column.lower() in personal}
    if RECORD in row:
        landed = rescued.landed_values(row[RECORD], row[BROKEN])
        not_converted = {name: value for name, value in landed.items() if values.get(name) is None}
        if personal:
            not_converted = dict.fromkeys(not_converted, _MASK)
        values |= not_converted
    return {"row": values, "file": row[SOURCE], "rules": list(row[BROKEN])}


def _text_of(rule: str, conditions: Mapping[str, str]) -> str:
    """Return the text with a rule's columns: its name if every table has the rule, else its condition."""
    if " " in rule:
        return rule
    return conditions.get(rule, rule)
