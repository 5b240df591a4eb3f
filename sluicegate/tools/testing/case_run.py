"""Run of one case: a lake and a landing of its own, the real layers in this process, and a comparison of tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.console import ignore_line
from sluicegate.definition import LAYERS, Layer, Pipeline, load
from sluicegate.errors import Mistake
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.jobs import base, layer_job
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.settings import Settings
from sluicegate.tools.testing import given
from sluicegate.tools.testing.case_files import name_hint, tables
from sluicegate.tools.testing.model import Case, CaseStep, Place, Rows, TableExpected, Wrong
from sluicegate.tools.testing.row_diff import SHOWN, Row, TableDifference, compare
from sluicegate.tools.testing.values import Unfit, case_value, display_value, table_value

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

# Commit info: who runs it.
RUN_INFO = {"run_id": "test"}

# States of a case.
OK, FAILED, MISTAKE = "ok", "failed", "mistake"


@dataclass
class CaseResult:
    """Result of a case.

    Attributes:
        name: its name.
        file: its file.
        line: its line there.
        description: what it shows.
        state: ``ok``; ``failed``: a table or the run is not as expected; ``mistake``: the case itself is wrong.
        seconds: wall time.
        folder: where its lake and landing are, if they are kept.
        differences: the tables that are not as expected.
        errors: errors of a run that was not to fail, or the missing failure of one that was.
        mistakes: mistakes of the case.
    """

    name: str
    file: str
    line: int
    description: str
    state: str = OK
    seconds: float = 0.0
    folder: str | None = None
    differences: list[TableDifference] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> CaseResult:
        """Restore the result from a line of the job."""
        differences = [TableDifference(**difference) for difference in facts["differences"]]
        mistakes = [Mistake(**mistake) for mistake in facts["mistakes"]]
        return cls(**{**facts, "differences": differences, "mistakes": mistakes})


def run_case(spark: SparkSession, pipelines: Path, name: str, case: Case, folder: Path, target: str = "") -> CaseResult:
    """Run a case.

    Args:
        spark: the session; each table gets one of its own from it.
        pipelines: folder of definitions.
        name: name of the pipeline.
        case: the case.
        folder: an empty folder for its lake and landing.
        target: target whose values the pipeline has.
    """
    began = time.monotonic()
    result = CaseResult(case.name, case.place.file, case.place.line, case.description)
    try:
        settings = Settings.of(str(folder / "lake"), str(folder / "landing"), pipelines, "local[*]", target)
        _Run(spark, load(name, settings), case, folder).run(result)
    except Wrong as wrong:
        result.mistakes.append(wrong.mistake)
    except Exception as raised:  # the other cases go on
        result.errors.append(base.to_sluicegate_error(raised).for_people())
    if result.mistakes:
        result.state = MISTAKE
    elif result.differences or result.errors:
        result.state = FAILED
    result.seconds = time.monotonic() - began
    return result


class _Run:
    """Run of one case."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, case: Case, folder: Path) -> None:
        self.spark, self.case, self.folder = spark, case, folder
        self.pipeline = given.enclose_pipeline(pipeline, folder)
        self.at = layout.Lake(str(folder / "lake"), pipeline.name)
        self.wanted = needed_tables(pipeline, case)

    def run(self, result: CaseResult) -> None:
        """Run step after step, up to the first that is not as expected."""
        given.create_folders(self.pipeline, self.folder / "landing")
        for number, step in enumerate(self.case.steps, 1):
            given.land(self.spark, self.pipeline, self.folder / "landing", step, number)
            result.errors += [f"in step {number}: {text}" if number > 1 else text for text in self._layers(step)]
            if not result.errors:
                result.differences += filter(None, (self._compare_table(table, number) for table in step.expect))
            if result.errors or result.differences:
                return

    def _layers(self, step: CaseStep) -> list[str]:
        """Run the layers, and return the differences between the run and its expectations."""
        try:
            for layer in LAYERS:
                self._layer(layer)
        except Exception as raised:
            error = base.to_sluicegate_error(raised)
            if error.code == step.fails:
                return []
            if step.fails:
                return [f"the run was expected to fail with {step.fails}, but failed with:\n{error.for_people()}"]
            return [error.for_people()]
        if step.fails:
            return [f"the run was expected to fail with {step.fails}, but succeeded"]
        return []

    def _layer(self, layer: Layer) -> None:
        only = [name for name in self.pipeline.names(layer) if name in self.wanted]
        if layer == "bronze":
            only = [name for name in only if given.has_input(self.pipeline.bronze[name])]
        if only:
            layer_job.Job(self.pipeline, self.at, layer, RUN_INFO, self.spark, only=only, tell=ignore_line).run()

    def _compare_table(self, expectation: TableExpected, number: int) -> TableDifference | None:
        """Compare one table with its expectation, None if they agree."""
        table = lake_tables.delta_table(self._uri(expectation.table))
        diff = TableDifference(expectation.table, number, expectation.place.line)
        rows = expectation.rows
        if table is None:
            return self._missing_table_difference(expectation, diff)
        diff.found = lake_tables.rows(table)
        right = True
        if rows is not None and rows.columns:
            expected, actual = _comparable_rows(rows, table, expectation.place)
            diff.columns, diff.expected = list(rows.columns), len(expected)
            keys = self._keys(expectation.table)
            if not set(keys) <= set(rows.columns):
                keys = []
            positions = list(map(rows.columns.index, keys))
            tolerance, partly = expectation.tolerance, expectation.partly
            right = compare(diff, expected, actual, keys=positions, tolerance=tolerance, partly=partly)
        elif rows is not None and not expectation.partly and diff.found:
            diff.expected, right = 0, False
            diff.columns = _own_columns(table)
            compare(diff, [], _table_rows(table, diff.columns))
        if expectation.count is not None and expectation.count != diff.found:
            diff.expected, right = expectation.count, False
            diff.note = f"expected {expectation.count:,} rows, got {diff.found:,}"
        if right:
            return None
        return diff

    def _missing_table_difference(self, expectation: TableExpected, diff: TableDifference) -> TableDifference | None:
        """Return the difference of a table that does not exist, which has no rows."""
        records = expectation.rows.records if expectation.rows else ()
        if not records and not expectation.count:
            return self._waiting_difference(expectation.table, diff)
        diff.note = self._with_waiting_reason("the table does not exist yet", expectation.table)
        diff.expected = len(records) or expectation.count
        if expectation.rows:
            diff.columns = list(expectation.rows.columns)
            diff.missing = [[display_value(record[column]) for column in diff.columns] for record in records][:SHOWN]
            diff.counts = {"missing": len(records), "unexpected": 0, "changed": 0}
        return diff

    def _waiting_difference(self, name: str, diff: TableDifference) -> TableDifference | None:
        """Return the difference of an empty side table whose records wait, None for others.

        An empty quarantine proves nothing before the records are evaluated.
        """
        made_by = tables(self.pipeline)[name]
        if name == made_by or lake_tables.delta_table(self._uri(made_by)) is not None:
            return None
        sources = flows.flows(self.pipeline, self.at, "silver")[made_by].sources
        if not any(lake_tables.rows(lake_tables.delta_table(uri)) for uri in sources):
            return None
        diff.note = self._with_waiting_reason(f"{made_by} does not exist, and its records wait", made_by)
        return diff

    def _keys(self, name: str) -> list[str]:
        """Return the key columns of a table; none where none are declared."""
        made_by = tables(self.pipeline)[name]
        table = self.pipeline.silver.get(self.pipeline.deidentified_tables.get(made_by, made_by))
        if table is None or name.endswith("_set_aside"):
            return []
        return list(table.changes.keys if table.changes else table.keys)

    def _with_waiting_reason(self, sentence: str, name: str) -> str:
        """Complete a sentence on a table that does not exist by the reason, if one is known."""
        reason = ""
        if name in self.pipeline.bronze:
            reason = "none of its files landed"
        for layer in LAYERS[1:]:
            if name in self.pipeline.names(layer):
                reason = progress(flows.flows(self.pipeline, self.at, layer)[name]).why
        return ": ".join(filter(None, [sentence, reason]))

    def _uri(self, name: str) -> str:
        made_by = tables(self.pipeline)[name]
        side_tables = {f"{made_by}_quarantine": self.at.quarantine, f"{made_by}_set_aside": self.at.set_aside}
        if name in side_tables:
            return side_tables[name](made_by)
        layer = next(layer for layer in LAYERS if name in self.pipeline.names(layer))
        return self.at.table(layer, name)


def _comparable_rows(rows: Rows, table: DeltaTable, place: Place) -> tuple[list[Row], list[Row]]:
    """Return the expected rows and those of the table, in the common form."""
    kinds = {field.name: field.type for field in lake_tables.dataset(table).schema}
    for column in rows.columns:
        if column not in kinds:
            place = next(
                (row_place for record, row_place in zip(rows.records, rows.places, strict=True) if column in record),
                place,
            )
            raise Wrong(f"unknown column {column}", place, name_hint(column, kinds, "its columns"))
    expected = [_row(record, rows, kinds, at) for record, at in zip(rows.records, rows.places, strict=True)]
    return expected, _table_rows(table, rows.columns)


def _row(record: Mapping[str, Any], rows: Rows, kinds: Mapping[str, Any], place: Place) -> Row:
    row = []
    for column in rows.columns:
        try:
            row.append(case_value(record[column], kinds[column], text=rows.texts))
        except Unfit as unfit:
            raise Wrong(f"{column}: {unfit.message}", place, unfit.hint) from unfit
    return tuple(row)


def _table_rows(table: DeltaTable, columns: Iterable[str]) -> list[Row]:
    data = lake_tables.dataset(table).to_table(list(columns))
    kinds = [column.type for column in data.schema]
    return [tuple(map(table_value, row.values(), kinds)) for row in data.to_pylist()]


def _own_columns(table: DeltaTable) -> list[str]:
    """Return the columns other than the engine's, if there are any."""
    names = [field.name for field in lake_tables.dataset(table).schema]
    return [name for name in names if not name.startswith("_") or name == "_failed_expectations"] or names


def needed_tables(pipeline: Pipeline, case: Case) -> set[str]:
    """Return the tables that a case needs: those it has expectations on, and all that they read.

    A run that is to fail needs all, since it does not say which table fails.
    """
    names = tables(pipeline)
    if any(step.fails for step in case.steps):
        return set(names)
    needed: set[str] = set()
    pending = [names[step_table.table] for step in case.steps for step_table in step.expect]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += pipeline.reads(name)
    return needed
