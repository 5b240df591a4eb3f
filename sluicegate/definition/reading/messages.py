"""Translation of pydantic's errors: a stable code, a sentence, the nearest right name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sluicegate.definition.fields import Part, suggest_name
from sluicegate.definition.pipeline.airflow import AirflowSettings
from sluicegate.definition.pipeline.maintenance import Maintenance
from sluicegate.definition.pipeline.model import (
    ApplyChanges,
    ApplyChangesFromSnapshot,
    Database,
    Expectation,
    Header,
    Pipeline,
)
from sluicegate.definition.pipeline.notify import Notify
from sluicegate.definition.pipeline.verify_schedule import Verify
from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.definition.tables.table_rules import TableRule
from sluicegate.definition.yaml import Path

_EXPECTED = {
    "string_type": "expected a string,", "int_type": "expected an integer,", "int_from_float": "expected an integer,",
    "float_type": "expected a number,", "finite_number": "expected a number,", "bool_type": "expected true or false,",
    "list_type": "expected a list such as [one, two],",
    "dict_type": "expected names with values such as {name: value},",
    "model_type": "expected fields such as {name: value},",
    "model_attributes_type": "expected fields such as {name: value},",
}  # fmt: skip
_INNER: dict[str, type[Part]] = {
    "database": Database, "apply_changes": ApplyChanges, "apply_changes_from_snapshot": ApplyChangesFromSnapshot,
    "expectations": Expectation, "flows": SilverFlow, "expect_table": TableRule, "notify": Notify,
    "airflow": AirflowSettings, "maintenance": Maintenance, "verify": Verify,
}  # fmt: skip


def validation_mistakes(error: ValidationError, model: type[Part]) -> Iterator[tuple[str, Path, str, str]]:
    """Yield code, path below the validated part, sentence and hint of each mistake.

    Args:
        error: pydantic's error.
        model: the class of the part that was validated.
    """
    for detail in error.errors(include_url=False):
        # pydantic adds steps of its own to a path, such as [key] for the name in a dict.
        path = tuple(step for step in detail["loc"] if step != "[key]")
        code, message, hint = _describe_error(detail, path, model)
        yield code, path, message, hint


def _describe_error(detail: ErrorDetails, path: Path, model: type[Part]) -> tuple[str, str, str]:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    field = "".join(map(str, path[-1:]))
    if "hint" in context:
        return kind, str(context["message"]), str(context["hint"])
    if kind == "extra_forbidden":
        fields = _fields(path, model)
        return (
            "unknown-field",
            f"unknown field {field}",
            suggest_name(field, fields) or f"known fields: {_join_names(fields)}",
        )
    if kind == "missing":
        return "missing-field", f"{field} is missing", ""
    if kind == "literal_error":
        return _describe_choice(field, value, str(context.get("expected", "")))
    if kind in _EXPECTED:
        hint = ""
        if kind == "string_type" and isinstance(value, (int, float)):
            hint = 'put it in quotes: "…"'
        return "wrong-type", f"{_EXPECTED[kind]} got {_format_value(value)}", hint
    if kind == "string_too_short":
        return "empty", f"{field} is empty", ""
    if kind in ("too_short", "too_long"):
        return "empty", f"{field} needs at least one name", ""
    return "out-of-range", f"{field} is {_format_value(value)}: {detail['msg'].replace('Input', 'it', 1)}", ""


def _describe_choice(field: str, value: Any, expected: str) -> tuple[str, str, str]:
    allowed = re.findall(r"'([^']*)'", expected) or [expected]
    return (
        "not-allowed",
        f"{field} must be one of {_join_names(allowed)}, not {_format_value(value)}",
        suggest_name(str(value), allowed),
    )


def _fields(path: Path, model: type[Part]) -> list[str]:
    """Return names of the fields that are allowed next to an unknown one."""
    for step in reversed(path[:-1]):
        if step in _INNER:
            model = _INNER[str(step)]
            break
    if model is Header:
        model = Pipeline
    return [field.alias or name for name, field in model.model_fields.items()]


def _join_names(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return {type(None): "nothing", dict: "a set of fields", list: "a list"}.get(type(value), str(value))
