"""Models of ``apply_changes`` and ``apply_changes_from_snapshot``, with the names and meanings of AUTO CDC.

https://docs.databricks.com/aws/en/ldp/developer/ldp-python-ref-apply-changes and, for snapshots,
https://docs.databricks.com/aws/en/ldp/developer/ldp-python-ref-apply-changes-from-snapshot
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict, JsonValue

from sluicegate.definition.fields import Names, Part, SqlCondition, field_error
from sluicegate.spark_sql.condition import Condition

# Columns of an SCD type 2 table: sequence at which a version begins, and the one before which it ends.
START_AT, END_AT = "__START_AT", "__END_AT"

SomeNames = Annotated[Names, Field(min_length=1)]
_SCD_TYPES = {"1": 1, "2": 2}
ScdType = Annotated[
    Literal[1, 2],
    BeforeValidator(
        lambda scd_type: _SCD_TYPES.get(str(scd_type), scd_type), json_schema_input_type=Literal[1, 2, "1", "2"]
    ),
]


def _exclusive_fields(first: str, second: str) -> JsonDict:
    return {"not": {"required": [first, second], "properties": {first: {"type": "array"}, second: {"type": "array"}}}}


def _type_2_schema(field: str) -> JsonDict:
    """Return the JSON schema for editors by which a field needs ``stored_as_scd_type`` 2."""
    type_2: JsonDict = {"required": ["stored_as_scd_type"], "properties": {"stored_as_scd_type": {"enum": [2, "2"]}}}
    return {"anyOf": [{"properties": {field: {"type": "null"}}}, type_2]}


TRACKED = ("track_history_column_list", "track_history_except_column_list")
_LISTED = ("column_list", "except_column_list")
_HISTORY: list[JsonValue] = [_exclusive_fields(*TRACKED), *[_type_2_schema(field) for field in TRACKED]]


class _Changes(Part):
    """Common fields of both models."""

    keys: SomeNames
    sequence_by: str
    stored_as_scd_type: ScdType = 1
    track_history_column_list: SomeNames | None = None
    track_history_except_column_list: SomeNames | None = None

    @property
    def has_history(self) -> bool:
        """Whether it is SCD type 2: a row for each version of a key, with ``__START_AT`` and ``__END_AT``."""
        return self.stored_as_scd_type == 2

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Columns that the table has besides those of the source."""
        if self.has_history:
            return (START_AT, END_AT)
        return ()

    @property
    def latest_only(self) -> bool:
        """Whether a record needs to be compared only with its key's row, without the records before it."""
        return False

    @property
    def delete_columns(self) -> list[str]:
        """Source columns that ``apply_as_deletes`` refers to."""
        return []

    def selected_columns(self, columns: Sequence[str]) -> list[str]:
        """Return source columns that the table has, in the source's order."""
        return list(columns)

    @model_validator(mode="after")
    def _check_history(self) -> _Changes:
        _demand_one_of(self, *TRACKED)
        for field in TRACKED:
            if getattr(self, field) is not None and not self.has_history:
                raise field_error("scd-type", f"{field} requires stored_as_scd_type 2: type 1 keeps no history")
        return self


class ApplyChanges(_Changes):
    """Change data capture (CDC): ``create_auto_cdc_flow`` of Databricks.

    ``column_list`` and ``except_column_list`` exclude each other, and so do the two that begin with ``track_history``;
    the latter go with type 2 only.

    Attributes:
        keys: columns of the key that a record is about.
        sequence_by: column that orders the records of a key; of equal ones the record that arrived last counts.
        stored_as_scd_type: 1, the latest row of each key is kept; 2, each version, from `__START_AT` to `__END_AT`.
        apply_as_deletes: condition over the source's columns that makes a record a delete; NULL is no delete. A
            delete is held to rules on keys and sequence alone.
        ignore_null_updates: NULL in a record keeps the existing value, also in fields of structs.
        column_list: columns of the table; all of the source's if not given.
        except_column_list: columns of the source that the table does not have.
        track_history_column_list: columns whose changes begin a version; all if not given.
        track_history_except_column_list: columns whose changes begin none: a version shows their newest values.
    """

    apply_as_deletes: SqlCondition | None = None
    ignore_null_updates: bool = False
    column_list: SomeNames | None = None
    except_column_list: SomeNames | None = None

    model_config = ConfigDict(json_schema_extra={"allOf": [_exclusive_fields(*_LISTED), *_HISTORY]})

    @property
    def latest_only(self) -> bool:
        """Whether a record needs to be compared only with its key's row, without the records before it."""
        return not (self.has_history or self.apply_as_deletes or self.ignore_null_updates)

    @property
    def delete_condition(self) -> str | None:
        """Delete condition with TRY_CAST: a value that does not cast makes it NULL, which is no delete."""
        if self.apply_as_deletes is None:
            return None
        return Condition.parse(self.apply_as_deletes).tried

    def binds_deletes(self, columns: Iterable[str]) -> bool:
        """Return whether a rule on these columns applies to deletes, which may lack all but keys and sequence."""
        return {column.lower() for column in columns} <= {name.lower() for name in (*self.keys, self.sequence_by)}

    @property
    def delete_columns(self) -> list[str]:
        if self.apply_as_deletes is None:
            return []
        return Condition.parse(self.apply_as_deletes).columns

    def selected_columns(self, columns: Sequence[str]) -> list[str]:
        """Return source columns that the table has, in the source's order.

        As in Spark, case does not matter. A listed column that does not exist is left out.
        """
        if self.column_list is not None:
            listed = {name.lower() for name in self.column_list}
            return [name for name in columns if name.lower() in listed]
        unwanted = {name.lower() for name in self.except_column_list or ()}
        return [name for name in columns if name.lower() not in unwanted]

    @model_validator(mode="after")
    def _check_columns(self) -> ApplyChanges:
        _demand_one_of(self, *_LISTED)
        for field in ("keys", *TRACKED):
            for name in getattr(self, field) or ():
                if not self.selected_columns([name]):
                    where = "is not in column_list" if self.column_list else "is in except_column_list"
                    raise field_error("not-a-column", f"{name} of {field} {where}, so the table would not contain it")
        return self


class ApplyChangesFromSnapshot(_Changes):
    """CDC from snapshots of all rows: ``create_auto_cdc_from_snapshot_flow`` of Databricks.

    The records with one value of ``sequence_by`` are one snapshot. A key that the next snapshot does not have counts as
    deleted. The two fields that begin with ``track_history`` exclude each other and go with type 2 only.

    Attributes:
        keys: columns that identify a row of a snapshot.
        sequence_by: column that identifies a record's snapshot, and orders the snapshots.
        stored_as_scd_type: 1, the latest snapshot is kept; 2, each version, from `__START_AT` to `__END_AT`.
        track_history_column_list: columns whose changes begin a version; all but ``sequence_by`` if not given.
        track_history_except_column_list: columns whose changes begin none: a version shows their newest values.
    """

    model_config = ConfigDict(json_schema_extra={"allOf": _HISTORY})

    @model_validator(mode="after")
    def _check_sequence(self) -> ApplyChangesFromSnapshot:
        for field in ("keys", "track_history_column_list"):
            if self.sequence_by in (getattr(self, field) or ()):
                message = f"{self.sequence_by} identifies the snapshot of a record, so {field} cannot contain it"
                raise field_error("one-of", message)
        return self


def _demand_one_of(part: Part, *fields: str) -> None:
    set_fields = part.fields_with_values(*fields)
    if len(set_fields) > 1:
        raise field_error("one-of", f"{' and '.join(set_fields)} exclude each other: set one of them")
