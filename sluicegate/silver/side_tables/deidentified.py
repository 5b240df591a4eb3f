"""De-identified tables: copies of silver tables without identifying values.

``{table}_deidentified`` follows its silver table by identity, through the same loop and the same ``apply`` as silver
follows bronze: corrections, deletions and full refreshes come into it with the next run. The definition says how a
column is treated; it must do so for every column that it marks ``pii``.

If the treatment or the key changes, no former version of the copy is kept: whoever masks a column later does so since
its values must not be read. The copy becomes a new table (lake/former_versions.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType

from sluicegate import pii_key
from sluicegate.definition.tables.silver import SilverTable, Treatment
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.errors import QueryError, Where
from sluicegate.flow.batch import Batch
from sluicegate.flow.several import several_progress
from sluicegate.lake import former_versions
from sluicegate.lake.layout import Lake
from sluicegate.schema.columns import RECORD_STRUCT, SEQUENCE, data_columns
from sluicegate.silver import process
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.side_tables import pseudonyms
from sluicegate.silver.side_tables.rescued import RecordSource, Watched
from sluicegate.silver.transform import Transform, TransformedRows
from sluicegate.spark_sql.identifiers import quote_name

MASKED = "***"

# Types without one text in Spark: equal values could have two, or different values the same.
_NO_TEXT = (StructType, ArrayType, MapType, VariantType, BinaryType)


def apply(batch: Batch, name: str, table: SilverTable, at: Lake) -> None:
    """Apply the changes of the silver table's rows.

    Args:
        batch: rows of the silver table.
        name: the de-identified table.
        table: definition of the silver table.
        at: the lake.

    Raises:
        PiiKeyMissing: a column needs pseudonyms, and there is no usable key.
        QueryError: the silver table lacks a treated column, or one has no text form.
    """
    deidentifying = evaluator(batch, name, table)
    if column := deidentifying.newly_masked_column():
        batch.report.state, batch.report.why = "rebuilt", f"{column} is new, and masked in all rows"
        deidentifying = evaluator(batch.widen_to_all_rows(), name, table)
    target = batch.opened[batch.flow.target]
    definition = {"fingerprint": batch.flow.fingerprint, "key": batch.flow.key}
    if deidentifying.batch.whole and target.delta is not None:
        deidentifying.batch.replaces_table = former_versions.has_other_versions(target, definition)
    process.put(deidentifying, at)


def evaluator(batch: Batch, name: str, table: SilverTable) -> Deidentifying:
    """Return the evaluator of the rows of a silver table for its copy.

    Args:
        batch: rows of the silver table.
        name: the de-identified table.
        table: definition of the silver table.
    """
    return Deidentifying(batch, name, SilverTable.model_construct(), table.deidentified or {})


class Deidentifying(RowEvaluator):
    """Evaluator of the rows of a silver table: no expectations, no keys, the same identity."""

    def __init__(self, batch: Batch, name: str, table: SilverTable, treatments: dict[str, Treatment]) -> None:
        super().__init__(batch, name, table)
        self.treatments = {column.lower(): treatment for column, treatment in treatments.items()}

    def newly_masked_column(self) -> str:
        """Return a masked column that the copy lacks; empty if there is none.

        Existing rows would have NULL in it, while a full refresh masks all rows.
        """
        if self.batch.whole or self.target is None:
            return ""
        stored = {column.lower() for column in self.stored_columns}
        for column in self.batch.rows.columns:
            if self.treatments.get(column.lower()) == "mask" and column.lower() not in stored:
                return column
        return ""

    def transform(self, maker: SilverTable | SilverFlow, flow: str) -> Transform:
        """Return the treatment of columns in place of a query."""
        query = super().transform(maker, flow)
        attributes = {field.name: getattr(query, field.name) for field in fields(Transform)}
        return _Treated(**attributes, treatments=self.treatments)


@dataclass(frozen=True)
class _Treated(Transform):
    """Treatment of the columns of a silver table.

    Attributes:
        treatments: treatment of each column, by lower-case name.
    """

    treatments: Mapping[str, Treatment]

    def rows(self, records: DataFrame) -> TransformedRows:
        """Treat each column as defined; the engine's columns, such as rescued data, are dropped."""
        records = self._add_record(records)
        names = [name for name in data_columns(records.columns) if name not in (RECORD_STRUCT, SEQUENCE)]
        self._demand(names)
        columns = [self._treat(name, records.schema[name].dataType) for name in names]
        treated = [column for column in columns if column is not None]
        rows = records.select(*treated, *self.record_id, RECORD_STRUCT)
        return TransformedRows(
            self, rows, Watched(RecordSource(records, self.batch.flow.source, any_case=False), (), parsed=False), ()
        )

    def _demand(self, columns: list[str]) -> None:
        """Raise if a treated column is missing: a misspelt name would leave the intended column untreated.

        A column of a flow whose source has no rows yet is not missing: the other flows need not wait.
        """
        flow = self.batch.flow
        missing, _ = several_progress.missing_columns(flow, self.batch.opened[flow.source], columns)
        if missing:
            source = self.name.removesuffix("_deidentified")
            raise QueryError(
                f"{source} has no column {', '.join(missing)}, which must be de-identified",
                where=Where(table=self.name),
                hint="correct the name; if only later files have the column, declare it in bronze's schema",
            )

    def _treat(self, name: str, kind: DataType) -> Column | None:
        column, treatment = F.col(quote_name(name)), self.treatments.get(name.lower())
        if treatment == "drop":
            return None
        if treatment == "mask" and isinstance(kind, StringType):
            return F.lit(MASKED).alias(name)
        if treatment == "mask":
            return F.lit(None).cast(kind).alias(name)
        if treatment == "hmac":
            if isinstance(kind, _NO_TEXT):
                raise QueryError(
                    f"{name} cannot have pseudonyms: its type {kind.typeName()} has no text form",
                    where=Where(table=self.name),
                    hint="use mask or drop for it, or select its parts as columns in the query",
                )
            return pseudonyms.pseudonym(column, pii_key.key()).alias(name)
        return column
