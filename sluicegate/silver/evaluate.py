"""Evaluate records: the user's transform, the expectations, and the provenance of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import SilverTable
from sluicegate.definition.tables.apply_changes import END_AT, START_AT
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.flow.definitions import former_definition
from sluicegate.flow.several import several_batch
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.frames.rules.row_rules import LENIENT
from sluicegate.lake import log
from sluicegate.lake import tables as lake_tables
from sluicegate.lake.commits.commit_info import SilverFacts
from sluicegate.schema.columns import DELETES, FLOW, IDENTITY, RECORD, RECORD_STRUCT, ROW, SEQUENCE
from sluicegate.silver import many_rows, provenance, several_flows
from sluicegate.silver.columns import absent_columns, changed_columns, column_checks, reserved_names
from sluicegate.silver.columns.declared_columns import cast_to_declared
from sluicegate.silver.expectations import DISPOSITION, Disposition, Rules
from sluicegate.silver.keys import deletes
from sluicegate.silver.keys.deduplicate import PLACE, Keyed, arrival
from sluicegate.silver.keys.scd import History
from sluicegate.silver.silver_batch import SilverBatch
from sluicegate.silver.transform import Transform, TransformedRows
from sluicegate.spark import connect, table_reader
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.engine_columns import is_working
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.query import CAST_PREFIX


@dataclass
class RowEvaluator(SilverBatch):
    """Evaluator of records by today's definition.

    Attributes:
        rules: all expectations of the table; filled in by ``rows``.
        made: what the transform of each flow, or under an empty name that of the table, last made of records.
        unruled: the rows that the rules were last evaluated on; None before.
        renewed: whether the batch evaluates all records that the table and its side tables have rows of.
        rescues: whether its records may have rescued values, or may not have been parsed.
    """

    rules: Rules = field(init=False)
    unruled: DataFrame | None = field(init=False, default=None)
    renewed: bool = field(init=False, default=False)
    rescues: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._casts: dict[str, str] = {}
        self._unfit: dict[str, bool] = {}
        self.made: dict[str, TransformedRows] = {}
        self._of_values: set[str] = set()
        changes = self.table.changes
        self.history: History | None = None
        if changes and not changes.latest_only:
            self.history = History.from_definition(changes, arrival(self.row_id))

    def stored_frames(self, uri: str) -> list[DataFrame]:
        """Return the current rows of a lake table as a list of one frame; empty without table or rows."""
        table = lake_tables.delta_table(uri)
        if not lake_tables.rows(table):
            return []
        return [table_reader.read(self.batch.session, uri, opened=table)]

    @cached_property
    def has_former_rows(self) -> bool:
        """Whether rows of the table may be from another definition than the current one."""
        last = log.last_own_commit(self.target)
        return former_definition.has_former_rows(self.table, last, self.batch.progress.streams)

    @property
    def leaves_former_rows(self) -> bool:
        """Whether the batch leaves rows of another definition."""
        choice = self.batch.choice
        if self.renewed or self.batch.whole or (choice is not None and choice.everything):
            return False
        return self.has_former_rows

    @property
    def definition_facts(self) -> dict[str, Any]:
        """Commit metadata on the definition: its fingerprint, and whether rows of another are left."""
        facts: dict[str, Any] = {"definition": self.table.fingerprint, "mixed": self.leaves_former_rows}
        if self.table.flows_or_branches:
            facts["definitions"] = former_definition.flow_definitions(self.table, self.batch.progress.streams)
        if self.batch.flow.stored_rows is not None:
            facts[SilverFacts.stored.key] = self.batch.flow.stored_rows.facts()
        return facts

    def rows(self, records: DataFrame | Mapping[str, DataFrame]) -> DataFrame:
        """Return the evaluated rows with identity, disposition and provenance; see ``transform_records``."""
        frame = self.transform_records(records)
        required = {column: column for column in (*self.keys, *filter(None, [self.table.event_time]))}
        if self.sequence_by:
            required[SEQUENCE] = self.sequence_by
        identity = deletes.identity_columns(self.table)
        self.rules = Rules(self.table, self._casts, required, self._of_values, identity, self._unfit)
        self.unruled = frame = self._add_awaited_columns(frame, [*required])
        column_checks.demand_comparable(self, frame)
        with override_settings(self.batch.session, LENIENT):
            frame = deletes.add_deletes(frame, self.table.apply_changes)
            frame = connect.freeze(self.rules.evaluate(frame))
        engine_columns = (*self.record_id, SEQUENCE, DELETES, BROKEN, DISPOSITION)
        columns = [column for column in (*self.outputs, *engine_columns) if column in frame.columns]
        rows = self.add_flow_place(frame.select(*map(quote_name, columns), *self._provenance(frame)))
        if not self.many:
            return rows
        return self._number_rows(rows)

    def _number_rows(self, rows: DataFrame) -> DataFrame:
        """Number rows within their records; with ``quarantine: record``, quarantine whole records.

        Done this late, as few rows have their record here, and numbering may send all of them over the network.
        """
        order = self.outputs
        if (
            self.table.flows_or_branches
        ):  # by name: where a column stands depends on which of the flows' sources are there
            order = sorted(self.outputs, key=str.lower)
        rows = many_rows.number_rows(rows, order, self.record_id)
        if self.table.quarantine != "record":
            return rows
        return many_rows.quarantine_whole_records(rows, self.record_id)

    def _add_awaited_columns(self, frame: DataFrame, required: Sequence[str]) -> DataFrame:
        """Add columns that only later records may have, as NULL of a still unknown type.

        These are columns that ``apply_as_deletes`` reads, or that rules name and only flows without a source have.
        """
        named: list[str] = []
        if self.table.apply_changes:
            named += self.table.apply_changes.delete_columns
        if self._has_absent_flows(self.batch.progress.streams):
            named += [*required, *(column for _, _, rule in self.table.rules for column in rule.columns)]
        else:
            self.remarks |= dict.fromkeys(absent_columns.remarks(named, frame.columns, self.batch.flow))
        present = {column.lower() for column in frame.columns}
        awaited = [column for column in dict.fromkeys(named) if column.lower() not in present]
        if not awaited:
            return frame
        return frame.withColumns({column: F.lit(None) for column in awaited})

    def _has_absent_flows(self, streams: Mapping[str, Any]) -> bool:
        """Return whether some flows of the table have no source yet."""
        return bool(self.table.flows_or_branches.keys() - streams.keys())

    def settle(self, rows: DataFrame, stored: DataFrame | None) -> DataFrame:
        """Return rows with their final disposition: one of each key, or each that begins a version, stays.

        Args:
            rows: evaluated rows; for a history, all rows of their keys.
            stored: stored rows, which arrived before, if any; not for a history, and not with ``unique`` expectations:
                then ``rows`` include all that share a key or unique values.
        """
        if self.history is not None:
            return self.history.settle(rows, self._selected_columns)
        if stored is not None:
            stored = self.add_flow_place(stored)
        settled = Keyed(self.keys, self.sequence_by is not None, self.row_id).settle(rows, stored)
        if not self.unique:
            return settled
        return self.rules.evaluate_unique(settled, arrival(self.row_id))

    @property
    def _identifying_columns(self) -> list[str]:
        """Columns that identify the table's rows, as the definition spells them."""
        unique = (column for columns in self.unique.values() for column in columns)
        return [*self.keys, *unique, *filter(None, [self.sequence_by, self.table.event_time])]

    def add_flow_place(self, rows: DataFrame) -> DataFrame:
        """Add the position of their flow to rows, in tables that identify records by it."""
        if FLOW not in self.record_id:
            return rows
        return rows.withColumn(PLACE, several_flows.place(F.col(FLOW), [*self.table.flows_or_branches]))

    @property
    def _selected_columns(self) -> list[str]:
        changes = self.table.changes
        if not changes:
            return self.outputs
        return changes.selected_columns(self.outputs)

    @property
    def columns(self) -> list[str]:
        """Columns of the table itself; its quarantine has ``outputs``."""
        if self.history is not None and self.history.scd_type == 2:
            return [*self._selected_columns, START_AT, END_AT]
        return [*self._selected_columns]

    def transform_records(self, records: DataFrame | Mapping[str, DataFrame]) -> DataFrame:
        """Return the transform's result with identity, the record itself, and a flag for each failed cast.

        Args:
            records: the records; of several flows those of each with the columns of its source, by its name, or all of
                them in one frame (see ``several_batch.pack_flows``).

        Raises:
            ColumnsChanged: stored rows have a column of another type, and are not replaced.
        """
        self._unfit, self.made = {}, {}
        if self.table.flows_or_branches:
            frame = self._transform_flows(records)
        elif isinstance(records, Mapping):
            raise TypeError(f"{self.name} has one flow")
        else:
            frame, self._casts = self._transform_flow(self.table, records)
        self.outputs = [c for c in frame.columns if c not in (*self.record_id, SEQUENCE) and not is_working(c)]
        column_checks.demand_storable(self, frame)
        changed_columns.demand_same(self, frame.schema)
        return frame

    def _transform_flows(self, records: DataFrame | Mapping[str, DataFrame]) -> DataFrame:
        """Return the result of all flows, united by column name."""
        if not isinstance(records, Mapping):
            packed = records
            records = {name: several_batch.unpack_flow(packed, name) for name in self.batch.progress.streams}
        by_flow = {}
        for name, frame in records.items():
            rows, casts = self._transform_flow(self.table.flows_or_branches[name], frame, flow=name)
            by_flow[name] = several_flows.OfFlow(rows, casts)
        stored = None
        if not self.batch.whole and self.target is not None:
            stored = table_reader.schema(self.target)
        identifying = self._identifying_columns
        frame, self._casts = several_flows.unite_flows(by_flow, self.record_id, self.name, stored, identifying)
        awaited = self._has_absent_flows(records)
        declared = self.table.declared_columns or {}
        return several_flows.order_declared_columns(frame, declared, self.name, awaited=awaited)

    def _transform_flow(
        self, maker: SilverTable | SilverFlow, records: DataFrame, *, flow: str = ""
    ) -> tuple[DataFrame, dict[str, str]]:
        """Return the result of one transform, and its casts by the flag of their failure.

        Args:
            maker: table or flow with the transform.
            records: its records.
            flow: name of the flow among several.
        """
        landed, records = records.columns, reserved_names.drop_working_columns(records)
        transformed = self.made[flow] = self.transform(maker, flow).rows(records)
        for name, binds in transformed.rules.items():
            self._unfit[name] = binds or self._unfit.get(name, False)
        frame = reserved_names.drop_reserved_columns(transformed.rows, landed, self, maker, flow)
        frame, casts = self._cast_to_declared(frame, maker)
        suffix = ""
        if flow:
            suffix = f"_of_{flow}"
        self._of_values |= {f"{flag}{suffix}" for flag in deletes.value_flags(self.table, maker, casts)}
        if not self.sequence_by:
            return frame, casts
        absent_columns.demand_sequence(self.sequence_by, [*frame.columns, *landed], self.batch.flow)
        sequence = quote_name(self.sequence_by)
        if self.sequence_by.lower() not in {column.lower() for column in frame.columns}:
            sequence = f"{RECORD_STRUCT}.{sequence}"
        return frame.withColumn(SEQUENCE, F.col(sequence)), casts

    def transform(self, maker: SilverTable | SilverFlow, flow: str) -> Transform:
        """Return a transform of the table.

        Args:
            maker: table or flow with the transform.
            flow: name of the flow among several.
        """
        return Transform(
            self.batch, self.name, self.table, maker, flow, self.record_id, self.sequence_by, rescues=self.rescues
        )

    def _cast_to_declared(self, frame: DataFrame, maker: SilverTable | SilverFlow) -> tuple[DataFrame, dict[str, str]]:
        """Cast rows to the declared columns, each with a flag for values that do not fit."""
        casts: dict[str, str] = {}
        if maker.query:
            casts = {f"{CAST_PREFIX}{number}": text for number, text in enumerate(maker.query.casts)}
        evolution = self.table.schemaEvolutionMode
        declared = self.table.declared_columns
        if declared is None and evolution == "addNewColumns":
            return frame, casts
        if declared is not None and self.table.flows_or_branches:  # what this flow does not make others may
            present = {column.lower() for column in frame.columns}
            declared = {name: kind for name, kind in declared.items() if name.lower() in present}
        stored = None
        if self.target is not None:
            stored = [name for name in self.stored_columns if name not in (*IDENTITY, FLOW, ROW, SEQUENCE)]
        frame, flags = cast_to_declared(frame, declared, stored, evolution, self.name)
        return frame, casts | flags

    def _provenance(self, frame: DataFrame) -> list[Any]:
        """Return the provenance of a record; its text only if it may be quarantined, since texts are large."""
        of_flows = [
            column
            for column in map(several_batch.records_column, self.table.flows_or_branches)
            if column in frame.columns
        ]
        records = of_flows or [RECORD_STRUCT]
        stamps = provenance.file_of(frame, records)
        if self.many:  # there the text comes later, and once: see ``side_tables/quarantine.py``
            return [*stamps]
        dispositions = [Disposition.QUARANTINED]
        if self.unique:  # a good row may turn out to repeat a unique value
            dispositions.append(Disposition.WRITTEN)
        text = F.when(F.col(DISPOSITION).isin(*dispositions), provenance.text_of(frame, records))
        return [*stamps, text.alias(RECORD)]

    @property
    def bound_time(self) -> str | None:
        """Event time, if it is part of each uniqueness hash: rows that share one then share the time."""
        time = self.table.event_time
        if time is None or not self.uniqueness.is_in_each_hash(time):
            return None
        return time
