"""The kinds of text and number that the fields of a definition hold, each with its check."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from croniter import croniter
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError

from sluicegate import pii_key
from sluicegate.sql import ddl
from sluicegate.sql.condition import Condition
from sluicegate.sql.tokens import QuerySyntax
from sluicegate.times import time_span

RESERVED = (
    "_chunk", "_pos", "_rescued_data", "_corrupt_record", "receipt_time", "source_file", "_file_modification_time",
    "_sequence",
)  # fmt: skip
"""Columns that the engine makes; no column of a definition may have such a name."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_PRESETS = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Part(BaseModel):
    """What all parts have in common: they do not change, have no other fields, and take no text for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def wrong(code: str, message: str, hint: str = "") -> PydanticCustomError:
    """A mistake as pydantic carries it: a stable code, a sentence, and what to write instead."""
    # pydantic puts context into braces of the message; what people wrote may have braces of its own.
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def nearest(name: str, known: Any) -> str:
    """``did you mean …?`` with the nearest of the known names, or the empty text."""
    near = difflib.get_close_matches(name, list(known), 1, 0.6) or difflib.get_close_matches(
        name.lower(), [other for other in known if other == other.lower()], 1, 0.6
    )
    return f"did you mean {near[0]}?" if near else ""


def name_fault(name: str) -> str:
    """What is wrong with the name of a pipeline or a table, or the empty text."""
    if not _NAME.fullmatch(name):
        return f"{name} is not a name: small letters, digits and _ are allowed, with a letter first"
    return ""


def _as_text(value: Any) -> Any:
    """YAML reads true and 10 as what they are; Spark takes the texts of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _with_variables(text: str, info: ValidationInfo) -> str:
    names: Mapping[str, str] = info.context or {}

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name == pii_key.VARIABLE:
            raise wrong("unset-variable", f"${{{name}}} is a secret, which no definition can name")
        if name not in names:
            hint = nearest(name, ["landing", "lake"]) or "set it in the environment of every process that runs this"
            raise wrong("unset-variable", f"${{{name}}} has no value: it is neither landing nor lake nor set", hint)
        return names[name]

    return _VARIABLE.sub(value, text)


def _absolute(path: str) -> str:
    if "://" not in path and not path.startswith("/"):
        hint = f"begin it with ${{landing}}: ${{landing}}/{path}"
        raise wrong("relative-path", f"{path} means another folder for each process that reads it", hint)
    return path.rstrip("/") if "://" in path else os.path.normpath(path)


def _ddl(text: str) -> str:
    return _listed(text, lambda text: {(name,): kind for name, kind in ddl.columns(text).items()})


def _hints(text: str) -> str:
    return _listed(text, ddl.hints)


def _listed(text: str, read: Callable[[str], Mapping[tuple[str, ...], str]]) -> str:
    try:
        columns = read(text)
    except ddl.TypeUnknown as error:
        raise wrong("unknown-type", error.message, f"did you mean {error.nearest}?" if error.nearest else "") from None
    except QuerySyntax as error:
        raise wrong("columns", error.message) from None
    for name, *_ in columns:
        if name.lower() in RESERVED:
            raise wrong("reserved-name", f"{name} is a column that every bronze table has: it cannot be declared")
    return text


def _condition(text: str) -> str:
    try:
        return Condition.parse(text).text
    except QuerySyntax as error:
        raise wrong("condition", error.message) from None


def _distinct(names: list[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise wrong("duplicate-name", f"{name} stands twice")
    return names


def _bytes(value: Any) -> Any:
    """``512m`` and the like, as Auto Loader takes them."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", value.strip().lower())
    if not match:
        raise wrong("wrong-type", f"a number of bytes is expected, as in 512m, and there is {value}")
    return int(match.group(1)) * _UNITS[match.group(2)]


def _duration(value: Any) -> Any:
    """``30 days`` and the like."""
    try:
        return time_span(str(value))
    except ValueError:
        what = f"a time span is expected, as in 30 days or 12 hours, and there is {value}"
        raise wrong("wrong-type", what) from None


def cron(schedule: str) -> str:
    """A cron expression as it is, if it is one with five fields."""
    if preset := _PRESETS.get(schedule.strip()):
        raise wrong("schedule", f"{schedule} is not a cron expression", f'write "{preset}"')
    count = len(schedule.split())
    if count != 5:
        what = f"{schedule} has {count} fields: minute, hour, day, month and day of the week are five"
        raise wrong("schedule", what, 'as in "*/15 * * * *", every quarter of an hour')
    # croniter takes R for a minute by chance, which would be another one for each process that asks.
    if not croniter.is_valid(schedule) or re.search(r"\b[rR]\b", schedule):
        what = f"{schedule} is not a cron expression"
        raise wrong("schedule", what, 'minute hour day month weekday, as in "30 6 * * mon-fri"')
    return schedule


def _moment(value: Any) -> Any:
    """A time in UTC from what YAML made of it: a text, a date or a time."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
    except ValueError:
        pass
    if not isinstance(value, datetime):
        raise wrong("wrong-type", f"a time is expected, as in 2024-05-01T12:00:00, and there is {value}")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _columns(names: list[str]) -> list[str]:
    for name in names:
        if not IDENTIFIER.fullmatch(name):
            raise wrong("name", f"{name!r} is not a name: letters, digits and _ are allowed, with a letter or _ first")
        if name.lower() in RESERVED:
            raise wrong("reserved-name", f"{name} is a column that every bronze table has")
    return _distinct(names)


Text = Annotated[str, BeforeValidator(_as_text)]
OptionText = Annotated[str, BeforeValidator(_as_text), AfterValidator(_with_variables)]
Location = Annotated[str, AfterValidator(_with_variables), AfterValidator(_absolute)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
Ddl = Annotated[str, AfterValidator(_ddl)]
Hints = Annotated[str, AfterValidator(_hints)]
SqlCondition = Annotated[str, AfterValidator(_condition)]
Moment = Annotated[datetime, BeforeValidator(_moment, json_schema_input_type=str)]
ColumnName = Annotated[str, AfterValidator(lambda name: _columns([name])[0])]
Duration = Annotated[timedelta, BeforeValidator(_duration, json_schema_input_type=str)]
ColumnNames = Annotated[list[str], AfterValidator(_columns)]
Names = Annotated[list[str], AfterValidator(_distinct)]
