"""Reconciliation of a silver batch: each record's disposition, proved by identity before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate.errors import AccountingError, FanOut, Where
from sluicegate.frames import rejected
from sluicegate.frames.rejected import BROKEN
from sluicegate.frames.row_rules import RowRules, Tally
from sluicegate.silver.deduplicate import REPLACED
from sluicegate.silver.evaluate import SOURCE, RowEvaluator
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

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
    """

    evaluator: RowEvaluator
    read: int
    sums: dict[str, int]
    failed: dict[str, int]
    sample: dict[str, Any] | None

    @classmethod
    def of(cls, evaluator: RowEvaluator, rows: DataFrame, read: int) -> Reconciliation:
        """Counts rows by disposition, in one pass, and refuses a batch that does not add up.

        Args:
            evaluator: the evaluator of the rows.
            rows: the evaluated rows.
            read: records that they were made of, counted elsewhere: by the source's log, or by their identities.

        Raises:
            FanOut: the query makes several rows of one record.
            AccountingError: records are missing, or there are more than were read.
            ExpectationFailed: rows break an ``expect_or_fail``, or too many another expectation; those that did are
                in ``{table}_rejected``.
        """
        exact = _exact(evaluator)
        sums = {disposition: f"count_if({DISPOSITION} = '{disposition}')" for disposition in DISPOSITIONS}
        sums["rows"] = "count(1)"
        by_identity = evaluator.many or not exact
        sums["records"] = f"count(DISTINCT {', '.join(evaluator.record_id)})" if by_identity else "count(1)"
        replaces = f"count_if({DISPOSITION} = 'good' AND {REPLACED[0]} IS NOT NULL)"
        sums["replaced"] = replaces if REPLACED[0] in rows.columns else "0L"
        broken = evaluator.rules.counts()
        shown = ", ".join(quoted(column) for column in (*evaluator.outputs, SOURCE, BROKEN))
        sample = f"any_value(struct({shown})) FILTER (WHERE {DISPOSITION} = 'quarantine')"
        counts = rows.selectExpr(*sums.values(), *broken.values(), sample).collect()[0]
        failed = dict(zip(broken, counts[len(sums) : -1], strict=True))
        found = cls(evaluator, read, dict(zip(sums, counts, strict=False)), failed, _sample(evaluator, counts[-1]))
        found._demand_sums(rows)
        found._demand_rules(rows)
        return found

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
        report.expectations = self.evaluator.rules.tally(self.failed, self.sums["rows"])
        report.warnings = self.warnings
        report.mixed = bool(self.evaluator.made_by["mixed"])
        report.samples = [self.sample] if self.sample is not None else []

    @property
    def _dropped(self) -> int:
        """What was dropped: rows of records that give many, else records, with those that the query left out."""
        return self.sums["drop"] + (0 if self.evaluator.many else self.filtered)

    def facts(self) -> dict[str, Any]:
        """Counts as commit metadata."""
        sums = self.sums
        many = {"rows": sums["rows"], "no_rows": self.filtered} if self.evaluator.many else {}
        warned = {"warnings": self.warnings} if self.warnings else {}
        return {
            "read": self.read, "written": sums["good"], "quarantined": sums["quarantine"],
            "dropped": self._dropped, "duplicates": sums["duplicate"] + sums["deleted"], **many,
            "expectations": self.evaluator.rules.tally(self.failed, sums["rows"]), **warned, **self.evaluator.made_by,
        }  # fmt: skip

    def _demand_sums(self, rows: DataFrame) -> None:
        exact, name = _exact(self.evaluator), self.evaluator.name
        read, made, records = self.read, self.sums["rows"], self.sums["records"]
        if not self.evaluator.many and made > (read if exact else records):
            example = rows.groupBy(*self.evaluator.record_id).count().where("count > 1").limit(1).collect()[0]
            raise FanOut(
                f"the query of {name} makes {made:,} rows of {records if not exact else read:,} records",
                where=Where(table=name, file=self.evaluator.table.sql_file),
                cause=f"record {example['_chunk']}/{example['_pos']} gave {example['count']} rows",
                hint="a lookup that is joined must have one row for each key: give it `keys`, or use apply_changes; "
                "if a record is to give several rows, write `rows: many`",
            )
        if records > read or (exact and records != read):
            raise AccountingError(
                f"{name} read {read:,} records but accounts for {records:,}",
                where=Where(table=name),
                hint="please report this: nothing was written, so nothing is lost",
            )

    @property
    def _expected(self) -> tuple[RowRules, Tally]:
        """Expectations of the definition, and how many rows broke each."""
        rules = RowRules(self.evaluator.table.expectations)
        return rules, Tally(self.sums["rows"], {name: self.failed[name] for name in rules.expectations})

    @property
    def warnings(self) -> list[str]:
        """Sentences on the expectations that more rows broke than the definition expects."""
        rules, tally = self._expected
        return rules.warnings(tally)

    def _demand_rules(self, rows: DataFrame) -> None:
        rules, tally = self._expected
        batch, evaluator = self.evaluator.batch, self.evaluator

        def failing() -> DataFrame:
            own = (*evaluator.outputs, *evaluator.row_id)
            provenance = [] if "source_file" in own else [F.col(SOURCE).alias("source_file")]
            return rows.select(*map(quoted, own), *provenance, BROKEN)

        if refusal := rules.refusal(tally, failing):
            writes = batch.choice is None or not batch.choice.validate
            rejected.refuse(batch, [refusal], {"expectations": tally.facts()}, writes=writes)


def _exact(evaluator: RowEvaluator) -> bool:
    """Whether each record is certain to give one row."""
    if evaluator.table.query is not None:
        return evaluator.table.query.keeps_every_record
    return not evaluator.table.is_python


def _sample(evaluator: RowEvaluator, row: Row | None) -> dict[str, Any] | None:
    """Quarantined row for the report: only the columns that its broken expectations name, personal ones masked."""
    if row is None:
        return None
    spoken = " ".join(evaluator.rules.conditions[rule] for rule in row[BROKEN])
    personal = {column.lower() for column in evaluator.table.pii}
    shown = {c: ("***" if c.lower() in personal else row[c]) for c in evaluator.outputs if c in spoken}
    return {"row": shown, "file": row[SOURCE], "rules": list(row[BROKEN])}
