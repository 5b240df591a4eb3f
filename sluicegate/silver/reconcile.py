"""Reconciliation of a silver batch: each record's disposition, proved by identity before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate.errors import AccountingError, FanOut, SluicegateError, Where
from sluicegate.frames import rejected
from sluicegate.frames.rejected import BROKEN
from sluicegate.frames.row_rules import RowRules, Tally
from sluicegate.schema.columns import FLOW, RECORD
from sluicegate.schema.typed_values import has_odd_keys
from sluicegate.silver import rescued, several_flows
from sluicegate.silver.deduplicate import REPLACED, replaced
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.silver.provenance import SOURCE
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import DataType

    from sluicegate.definition import SilverTable
    from sluicegate.definition.silver_flow import SilverFlow
    from sluicegate.flow.report import TableReport

DISPOSITIONS = ("good", "quarantine", "drop", "duplicate", "deleted")


@dataclass(frozen=True)
class Reconciliation:
    """Row counts of a batch by disposition.

    Attributes:
        read: records that the batch was given.
        sums: rows by disposition; ``rows`` of all, ``records`` that gave one, and winners that ``replaced`` a row.
        failed: rows that broke each expectation.
        sample: a quarantined row with the expectations that it broke; None without one.
        flows: the same of each flow, by its name, where several fill the table.
    """

    evaluator: RowEvaluator
    read: int
    sums: dict[str, int]
    failed: dict[str, int]
    sample: dict[str, Any] | None
    flows: Mapping[str, Reconciliation] = field(default_factory=dict)

    @classmethod
    def of(
        cls, evaluator: RowEvaluator, rows: DataFrame, read: int, by_flow: Mapping[str, int] | None = None
    ) -> Reconciliation:
        """Counts rows by disposition, in one pass, and refuses a batch that does not add up.

        Args:
            evaluator: the evaluator of the rows.
            rows: the evaluated rows.
            read: records that they were made of, counted elsewhere: by the source's log, or by their identities.
            by_flow: those of each flow, where several fill the table: each must add up by itself.

        Raises:
            FanOut: the query makes several rows of one record.
            SluicegateError: the table has several rows of the key of a record.
            AccountingError: records are missing, or there are more than were read.
        """
        sums = {disposition: f"count_if({DISPOSITION} = '{disposition}')" for disposition in DISPOSITIONS}
        sums["rows"] = "count(1)"
        by_identity = evaluator.many or not all(_exact(maker) for maker in evaluator.table.makers.values())
        sums["records"] = f"count(DISTINCT {', '.join(evaluator.record_id)})" if by_identity else "count(1)"
        replaces = f"count_if({DISPOSITION} = 'good' AND {REPLACED[0]} IS NOT NULL)"
        sums["replaced"] = replaces if REPLACED[0] in rows.columns else "0L"
        broken = evaluator.rules.counts()
        sums["unfit"] = rescued.unexpected([*broken]) if evaluator.rules.unfit else "0L"
        text = [RECORD] if RECORD in rows.columns else []
        kinds = {field.name: field.dataType for field in rows.schema}
        values = [_shown(column, kinds[column]) for column in evaluator.outputs]
        shown = ", ".join([*values, *map(quoted, (SOURCE, BROKEN, *text))])
        sample = f"any_value(struct({shown})) FILTER (WHERE {DISPOSITION} = 'quarantine')"
        expressions = [*sums.values(), *broken.values(), sample]

        def counted(counts: Sequence[Any], read: int) -> Reconciliation:
            failed = dict(zip(broken, counts[len(sums) : -1], strict=True))
            its = dict(zip(sums, counts, strict=False))
            return cls(evaluator, read, its, failed, _sample(evaluator, counts[-1]))

        if not evaluator.table.several:
            found = counted(rows.selectExpr(*expressions).collect()[0], read)
            found._demand_sums(rows, evaluator.table)
        else:
            of_flow = several_flows.flow_of(F.col(FLOW)).alias("_flow")
            groups = rows.groupBy(of_flow).agg(*map(F.expr, expressions)).collect()
            its = {group[0]: counted(group[1:], (by_flow or {}).get(group[0], 0)) for group in groups}
            nothing = [0] * (len(expressions) - 1) + [None]
            its |= {name: counted(nothing, count) for name, count in (by_flow or {}).items() if name not in its}
            found = replace(_together(counted(nothing, read), its.values()), flows=its)
            for name, one in its.items():
                one._demand_sums(rows.where(of_flow == name), evaluator.table.several[name])
        if found.sums["unfit"]:
            found = replace(found, failed=found.failed | rescued.counts(rows, [*broken]))
        return found

    def of_more(self, rows: DataFrame) -> Reconciliation:
        """The reconciliation of the same records with more rows, of such that had none."""
        return self.of(self.evaluator, rows, self.read, {name: one.read for name, one in self.flows.items()})

    @property
    def filtered(self) -> int:
        """Records that the query itself left out: by a WHERE, an inner join, or an array without elements."""
        return self.read - self.sums["records"]

    @property
    def aside(self) -> int:
        """Records, or rows, whose identities are set aside."""
        return (
            sum(self.sums[disposition] for disposition in ("duplicate", "drop", "deleted", "replaced")) + self.filtered
        )

    def fill(self, report: TableReport) -> None:
        """Fills a run's report with the counts."""
        report.read, report.written, report.quarantined = self.read, self.sums["good"], self.sums["quarantine"]
        report.duplicates = self.sums["duplicate"] + self.sums["deleted"]
        report.dropped = self._dropped
        if self.evaluator.many:
            report.rows, report.no_rows = self.sums["rows"], self.filtered
        report.flows = {name: one._counts() for name, one in self.flows.items()}
        report.expectations = self.evaluator.rules.tally(self.failed, self.sums["rows"])
        report.warnings = self.warnings
        report.mixed = self.evaluator.leaves_others
        report.samples = [self.sample] if self.sample is not None else []

    @property
    def _dropped(self) -> int:
        """What was dropped: rows of records that give many, else records, with those that the query left out."""
        return self.sums["drop"] + (0 if self.evaluator.many else self.filtered)

    def facts(self) -> dict[str, Any]:
        """Counts as commit metadata."""
        flows = {"flows": {name: one._counts() for name, one in self.flows.items()}} if self.flows else {}
        expectations = self.evaluator.rules.tally(self.failed, self.sums["rows"])
        warned = {"warnings": self.warnings} if self.warnings else {}
        return {**self._counts(), "expectations": expectations, **warned, **self.evaluator.made_by, **flows}

    def _counts(self) -> dict[str, int]:
        sums = self.sums
        many = {"rows": sums["rows"], "no_rows": self.filtered} if self.evaluator.many else {}
        return {
            "read": self.read, "written": sums["good"], "quarantined": sums["quarantine"],
            "dropped": self._dropped, "duplicates": sums["duplicate"] + sums["deleted"], **many,
        }  # fmt: skip

    def _demand_sums(self, rows: DataFrame, maker: SilverTable | SilverFlow) -> None:
        exact, name = _exact(maker), self.evaluator.name
        read, made, records = self.read, self.sums["rows"], self.sums["records"]
        if not self.evaluator.many and made > (read if exact else records):
            example = self._of_one_record(rows)
            if example["holders"] > 1:
                raise self._ambiguous(example)
            raise FanOut(
                f"the query of {name} makes {made:,} rows of {records if not exact else read:,} records",
                where=Where(table=name, file=maker.sql_file),
                cause=f"record {example['_chunk']}/{example['_pos']} gave {example['count']} rows",
                hint="a lookup that is joined must have one row for each key: give it `keys`, or use apply_changes; "
                "if a record is to give several rows, write `rows: many`",
            )
        if records > read or (exact and records != read):
            of = f" of {maker.stream}" if self.evaluator.table.several else ""
            raise AccountingError(
                f"{name} read {read:,} records{of} but accounts for {records:,}",
                where=Where(table=name),
                hint="please report this: nothing was written, so nothing is lost",
            )

    def _of_one_record(self, rows: DataFrame) -> Row:
        """A record that gave several rows: its identity, their ``count``, and how many stored rows have its key."""
        was = [column for column in replaced(self.evaluator.row_id) if column in rows.columns]
        holders = F.count_distinct(*map(F.col, was)) if was else F.lit(0)
        each = rows.groupBy(*self.evaluator.record_id).agg(F.count("*").alias("count"), holders.alias("holders"))
        return each.where("count > 1").orderBy(F.desc("holders")).limit(1).collect()[0]

    def _ambiguous(self, example: Row) -> SluicegateError:
        """Error for a table that has several rows of one key, so that none of them is the one to compare with."""
        flow, keys = self.evaluator.batch.flow, ", ".join(self.evaluator.keys)
        command = flow.stored.command if flow.stored is not None else f"sluicegate run --full-refresh {flow.table}"
        return SluicegateError(
            f"{flow.table} has {example['holders']:,} rows with the {keys} of one new record, and one at most is right",
            where=Where(table=flow.table, file=flow.target),
            cause=f"no run of today's definition writes two rows of one key: other programs may have written to the "
            f"table; the record is {example['_chunk']}/{example['_pos']}",
            hint=f"nothing was written; `{command}` rebuilds the table from all records of its source",
        )

    @property
    def _expected(self) -> tuple[RowRules, Tally]:
        """Expectations of the definition, and how many rows broke each."""
        rules = RowRules(self.evaluator.table.expectations)
        return rules, Tally(self.sums["rows"], {name: self.failed[name] for name in rules.expectations})

    @property
    def warnings(self) -> list[str]:
        """Sentences on columns left out, and on the expectations that more rows broke than the definition expects."""
        rules, tally = self._expected
        return [*self.evaluator.remarks, *rules.warnings(tally)]

    def demand_rules(self, rows: DataFrame) -> None:
        """Refuses a batch for the rules that its rows break.

        Args:
            rows: the rows that are reconciled.

        Raises:
            ExpectationFailed: rows break an ``expect_or_fail``, or too many another expectation; those that did are
                in ``{table}_rejected``.
        """
        rules, tally = self._expected
        batch, evaluator = self.evaluator.batch, self.evaluator

        def failing() -> DataFrame:
            own = (*evaluator.outputs, *evaluator.row_id)
            provenance = [] if "source_file" in own else [F.col(SOURCE).alias("source_file")]
            return rows.select(*map(quoted, own), *provenance, BROKEN)

        found = rules.refusal(tally, failing)
        unfit = {name: self.failed[name] for name in evaluator.rules.unfit if self.failed.get(name)}
        of_values = rescued.refusal(unfit, failing, found) if evaluator.table.rescued == "fail" else None
        if refusals := [*filter(None, (found, of_values))]:
            writes = batch.choice is None or not batch.choice.validate
            rejected.refuse(batch, refusals, {"expectations": tally.facts()}, writes=writes)


def _exact(maker: SilverTable | SilverFlow) -> bool:
    """Whether each record is certain to give one row."""
    return maker.query.keeps_every_record if maker.query is not None else not maker.is_python


def _together(nothing: Reconciliation, parts: Iterable[Reconciliation]) -> Reconciliation:
    """The counts of some flows added up, with the records read as they are in the first."""
    sums, failed, sample = dict(nothing.sums), dict.fromkeys(nothing.failed, 0), None
    for one in parts:
        sums = {name: count + one.sums[name] for name, count in sums.items()}
        failed = {name: count + one.failed[name] for name, count in failed.items()}
        sample = sample or one.sample
    return replace(nothing, sums=sums, failed=failed, sample=sample)


def _shown(column: str, kind: DataType) -> str:
    """A column of a sample, as Spark's text where Python may not have the value.

    It has no times before the year 1 and after 9999, and no map whose keys are lists.
    """
    if has_odd_keys(kind) or any(word in kind.simpleString() for word in ("date", "timestamp")):
        return f"CAST({quoted(column)} AS STRING) AS {quoted(column)}"
    return quoted(column)


def _sample(evaluator: RowEvaluator, row: Row | None) -> dict[str, Any] | None:
    """Quarantined row for the report: only the columns that its broken expectations name, personal ones masked.

    A value that did not convert is shown as it landed, and masked if any column of the table is personal: which of them
    is made of it is not known.
    """
    if row is None:
        return None
    conditions = evaluator.rules.conditions
    spoken = " ".join(rule if " " in rule else conditions.get(rule, rule) for rule in row[BROKEN])
    personal = {column.lower() for column in evaluator.table.pii}
    shown = {c: ("***" if c.lower() in personal else row[c]) for c in evaluator.outputs if c in spoken}
    landed = rescued.landed_values(row[RECORD], row[BROKEN]) if RECORD in row else {}
    others = {name: value for name, value in landed.items() if shown.get(name) is None}
    shown |= dict.fromkeys(others, "***") if personal else others
    return {"row": shown, "file": row[SOURCE], "rules": list(row[BROKEN])}
