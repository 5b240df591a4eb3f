"""Field types of a definition, with their validators."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError

from sluicegate import pii_key
from sluicegate.errors import LakeUnsupported
from sluicegate.settings import demand_supported_store
from sluicegate.spark_sql import ddl
from sluicegate.spark_sql.condition import Condition
from sluicegate.spark_sql.engine_columns import is_reserved
from sluicegate.spark_sql.tokens import QuerySyntax
from sluicegate.suggestions import suggest_name as suggest_name
from sluicegate.suggestions import suggest_or_list as suggest_or_list
from sluicegate.times import time_span

# Prefix of the environment variables with secrets of Kafka's clients.
_OF_KAFKA = "SLUICEGATE_KAFKA_"

_NAME = re.compile(r"[a-z][a-z0-9_]*")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
VARIABLE = re.compile(r"\$\{([^}]*)\}")
_PRESETS = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
# First and last value of minute, hour, day, month and weekday.
_CRON_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Part(BaseModel):
    """Base of all models: immutable, without unknown fields, strict about types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def fields_with_values(self, *names: str) -> list[str]:
        """Return the fields that are not None."""
        return [name for name in names if getattr(self, name) is not None]


def field_error(code: str, message: str, hint: str = "") -> PydanticCustomError:
    """Make a pydantic error with a stable code, a sentence, and a hint what to write instead."""
    # pydantic formats the message with its context; users' text may have braces of its own.
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def name_fault(name: str) -> str:
    """Return the fault in a pipeline's or table's name as a sentence, empty if the name is valid."""
    if not _NAME.fullmatch(name):
        return f"invalid name {name}: use lowercase letters, digits and _, starting with a letter"
    return ""


def _as_text(value: Any) -> Any:
    """Convert YAML's booleans and numbers to the texts that Spark's options take."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    return value


def _expand_variables(text: str, info: ValidationInfo) -> str:
    names: Mapping[str, str] = info.context or {}

    def variable_value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name == pii_key.VARIABLE or name.startswith(_OF_KAFKA):
            raise field_error("unset-variable", f"${{{name}}} is a secret, which a definition must not reference")
        if name not in names:
            elsewhere = "set it in the environment of every process that runs the pipeline"
            message = f"${{{name}}} is not set: use landing, lake or a variable of the environment"
            raise field_error("unset-variable", message, suggest_name(name, ["landing", "lake"]) or elsewhere)
        return names[name]

    return VARIABLE.sub(variable_value, text)


def check_absolute(path: str, hint: str = "") -> str:
    """Check that a path is absolute or a URI of a store, and return it without redundant slashes."""
    try:
        demand_supported_store(path)
    except LakeUnsupported as error:
        raise field_error("unsupported-store", error.message, error.hint) from error
    if "://" not in path and not path.startswith("/"):
        hint = hint or f"start it with ${{landing}}: ${{landing}}/{path}"
        message = f"{path} is a relative path, so it depends on the working folder of each process"
        raise field_error("relative-path", message, hint)
    if "://" in path:
        return path.rstrip("/")
    return os.path.normpath(path)


def _check_ddl(text: str) -> str:
    return _check_typed_columns(text, ddl.columns)


def _check_hints(text: str) -> str:
    return _check_typed_columns(text, lambda hints: [path[0] for path in ddl.hints(hints)])


def _check_typed_columns(text: str, names: Callable[[str], Iterable[str]]) -> str:
    hint = ""
    try:
        columns = names(text)
    except ddl.TypeUnknown as error:
        if error.nearest:
            hint = f"did you mean {error.nearest}?"
        raise field_error("unknown-type", error.message, hint) from None
    except QuerySyntax as error:
        raise field_error("columns", error.message) from None
    for name in columns:
        if is_reserved(name):
            raise field_error("reserved-name", f"{name} is a reserved name and cannot be declared")
    return text


def _parse_condition(text: str) -> str:
    try:
        return Condition.parse(text).text
    except QuerySyntax as error:
        raise field_error("condition", error.message) from None


def _check_distinct(names: list[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise field_error("duplicate-name", f"duplicate name {name}")
    return names


def _parse_bytes(value: Any) -> Any:
    """Parse sizes such as ``512m``, as in Auto Loader."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", value.strip().lower())
    if not match:
        raise field_error("wrong-type", f"expected a size such as 512m, got {value}")
    return int(match.group(1)) * _UNITS[match.group(2)]


def _parse_duration(value: Any) -> Any:
    """Parse time spans such as ``30 days``."""
    try:
        return time_span(str(value))
    except ValueError:
        message = f"expected a duration such as 30 days or 12 hours, got {value}"
        raise field_error("wrong-type", message) from None


def check_cron(schedule: str) -> str:
    """Check that a text is a cron expression with five fields and a future time, and return it."""
    if preset := _PRESETS.get(schedule.strip()):
        raise field_error("schedule", f"invalid cron expression {schedule}", f'write "{preset}"')
    count = len(schedule.split())
    if count != 5:
        message = f"{schedule} has {count} fields, but cron takes five: minute, hour, day, month and weekday"
        raise field_error("schedule", message, 'for example "*/15 * * * *", every 15 minutes')
    _, _, day, month, _ = schedule.split()
    if _is_plain_cron(schedule) and "*" in (day, month):
        return schedule
    # not above: its import runs the program ``file``, and few schedules need it
    from croniter import CroniterBadDateError, croniter

    # croniter accepts R for a random minute, which would differ between processes.
    if not croniter.is_valid(schedule) or re.search(r"\b[rR]\b", schedule):
        message = f"invalid cron expression {schedule}"
        raise field_error("schedule", message, 'minute hour day month weekday, for example "30 6 * * mon-fri"')
    try:
        croniter(schedule, datetime(2025, 1, 1, tzinfo=UTC)).get_next()
    except CroniterBadDateError:
        message = f"{schedule} never runs: no month has this day"
        raise field_error("schedule", message, "the third field is the day, the fourth the month") from None
    return schedule


def _is_plain_cron(schedule: str) -> bool:
    """Return whether a cron expression has only numbers, ranges, stars and steps, so that croniter is not needed."""
    fields = schedule.split()
    return len(fields) == len(_CRON_FIELDS) and all(
        _is_plain_part(part, *ends)
        for field, ends in zip(fields, _CRON_FIELDS, strict=True)
        for part in field.split(",")
    )


def _is_plain_part(part: str, first: int, last: int) -> bool:
    if match := re.fullmatch(r"\*(?:/([1-9][0-9]?))?", part):
        return int(match.group(1) or 1) <= last
    match = re.fullmatch(r"([0-9]{1,2})(?:-([0-9]{1,2}))?", part)
    return match is not None and first <= int(match.group(1)) <= int(match.group(2) or match.group(1)) <= last


def _parse_moment(value: Any) -> Any:
    """Parse a time, UTC by default, from a text, date or time of YAML."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
    except ValueError:
        pass
    if not isinstance(value, datetime):
        raise field_error("wrong-type", f"expected a timestamp such as 2024-05-01T12:00:00, got {value}")
    if value.tzinfo:
        return value
    return value.replace(tzinfo=UTC)


def check_identifiers(names: dict[str, Any]) -> dict[str, Any]:
    """Check that all names are identifiers, and return them with their values."""
    for name in names:
        if not IDENTIFIER.fullmatch(name):
            raise field_error("name", f"invalid name {name!r}: use letters, digits and _, starting with a letter or _")
    return names


def _check_column_names(names: list[str]) -> list[str]:
    for name in names:
        if not IDENTIFIER.fullmatch(name):
            raise field_error("name", f"invalid name {name!r}: use letters, digits and _, starting with a letter or _")
        if is_reserved(name):
            raise field_error("reserved-name", f"{name} is a reserved name")
    return _check_distinct(names)


Text = Annotated[str, BeforeValidator(_as_text)]
OptionText = Annotated[str, BeforeValidator(_as_text), AfterValidator(_expand_variables)]
Location = Annotated[str, AfterValidator(_expand_variables), AfterValidator(check_absolute)]
Bytes = Annotated[int, BeforeValidator(_parse_bytes)]
Schedule = Annotated[str, AfterValidator(check_cron)]
Ddl = Annotated[str, AfterValidator(_check_ddl)]
Hints = Annotated[str, AfterValidator(_check_hints)]
SqlCondition = Annotated[str, AfterValidator(_parse_condition)]
Moment = Annotated[datetime, BeforeValidator(_parse_moment, json_schema_input_type=str)]
ColumnName = Annotated[str, AfterValidator(lambda name: _check_column_names([name])[0])]
Duration = Annotated[timedelta, BeforeValidator(_parse_duration, json_schema_input_type=str)]
ColumnNames = Annotated[list[str], AfterValidator(_check_column_names)]
Names = Annotated[list[str], AfterValidator(_check_distinct)]
