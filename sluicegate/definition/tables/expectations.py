"""Models of expectations: one by one under ``expectations``, or several with one action (``expect_all…``)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from sluicegate.definition.fields import Part, SqlCondition, check_identifiers, field_error
from sluicegate.definition.tables.threshold import RowThreshold
from sluicegate.spark_sql.condition import Condition


class ExpectationAction(StrEnum):
    """What becomes of a row that breaks a condition."""

    WARN = "keep"
    """The row is kept and counted."""

    DROP = "drop"
    """The row is left out."""

    QUARANTINE = "quarantine"
    """The row goes to the quarantine."""

    FAIL = "fail"
    """The run fails, and the table stays as it was."""


# Action for a row that breaks a condition, by the field that the condition is in. Of each other action, also the
# severity in a contract, the column lineage and the words of the Lakehouse page have to say what it is.
ACTIONS = {
    "expect": ExpectationAction.WARN, "expect_or_drop": ExpectationAction.DROP,
    "expect_or_quarantine": ExpectationAction.QUARANTINE, "expect_or_fail": ExpectationAction.FAIL,
}  # fmt: skip

CONDITIONS = tuple(ACTIONS)

# Fields for several conditions with one action, and the field of a single expectation with that action.
EXPECT_ALL = {
    "expect_all": "expect", "expect_all_or_drop": "expect_or_drop", "expect_all_or_quarantine": "expect_or_quarantine",
    "expect_all_or_fail": "expect_or_fail",
}  # fmt: skip


def _refuse_unique(condition: str) -> str:
    """Refuse to drop duplicate rows: a dropped row would have to return when the other one goes."""
    if Condition.parse(condition).unique:
        raise field_error("unique", "unique does not support expect_or_drop", "write expect_or_quarantine instead")
    return condition


DropCondition = Annotated[SqlCondition, AfterValidator(_refuse_unique)]


class Expectation(Part):
    """A condition on rows of a table, with the action for rows that break it.

    It has exactly one of the four fields that begin with ``expect``. A bronze table has ``expect`` and
    ``expect_or_fail``, a gold table ``expect_or_drop`` as well, and a silver table all. ``retry`` goes with
    ``expect_or_quarantine`` only, ``warn_above`` and ``fail_above`` with all but ``expect_or_fail``.

    Attributes:
        expect: the condition; rows that break it are kept and counted.
        expect_or_drop: the condition; they are dropped.
        expect_or_quarantine: the condition; they go to the quarantine table.
        expect_or_fail: the condition; they fail the run.
        retry: quarantined rows are reprocessed when a lookup changes.
        warn_above: the run warns if more rows break it: a number of rows, as 100, or a share of them, as ``0.5%``.
        fail_above: the run fails if more rows break it, and the table stays as it was.
    """

    expect: SqlCondition | None = None
    expect_or_drop: DropCondition | None = None
    expect_or_quarantine: SqlCondition | None = None
    expect_or_fail: SqlCondition | None = None
    retry: bool = False
    # Of no row do they decide what it is, so the fingerprint of a table is made without them.
    warn_above: RowThreshold | None = Field(None, exclude=True)
    fail_above: RowThreshold | None = Field(None, exclude=True)

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in CONDITIONS]})

    @model_validator(mode="after")
    def _check_single_condition(self) -> Expectation:
        conditions = self.fields_with_values(*CONDITIONS)
        kinds = "expect, expect_or_drop, expect_or_quarantine or expect_or_fail"
        if not conditions:
            raise field_error("one-of", f"an expectation needs one of {kinds}")
        if len(conditions) > 1:
            raise field_error("one-of", f"an expectation takes only one of {kinds}, not {' and '.join(conditions)}")
        if self.retry and self.expect_or_quarantine is None:
            raise field_error("retry", "retry requires expect_or_quarantine: only quarantined rows can be reprocessed")
        self._check_thresholds()
        return self

    def _check_thresholds(self) -> None:
        warn, fail = self.warn_above, self.fail_above
        if self.expect_or_fail is not None and (warn or fail):
            message = "a threshold has no effect with expect_or_fail, which fails the run at the first row"
            raise field_error("threshold", message, "use expect with fail_above")
        if warn and fail and warn.is_share == fail.is_share and warn.number >= fail.number:
            message = f"warn_above {warn.text} has no effect: fail_above {fail.text} is reached first"
            raise field_error("threshold", message, "warn_above must be below fail_above")

    @property
    def _field(self) -> str:
        return self.fields_with_values(*CONDITIONS)[0]

    @property
    def action(self) -> ExpectationAction:
        """Action for a row that breaks it."""
        return ACTIONS[self._field]

    @property
    def text(self) -> str:
        """The condition as written."""
        return str(getattr(self, self._field))

    @property
    def condition(self) -> str:
        """The condition with TRY_CAST: a value that does not cast makes it NULL instead of failing the batch."""
        return Condition.parse(self.text).tried

    @property
    def unique(self) -> tuple[str, ...]:
        """Columns of ``unique(…)``; none for a condition on one row."""
        return Condition.parse(self.text).unique

    @property
    def columns(self) -> list[str]:
        """Columns that it refers to."""
        return Condition.parse(self.text).columns


Expectations = Annotated[dict[str, Expectation], AfterValidator(check_identifiers)]
ConditionsByName = Annotated[dict[str, SqlCondition], AfterValidator(check_identifiers)]
DropConditionsByName = Annotated[dict[str, DropCondition], AfterValidator(check_identifiers)]
