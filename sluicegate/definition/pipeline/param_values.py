"""Values of parameters: checked by their types, and written as SQL literals, option values and parts of a path."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from sluicegate.definition.fields import field_error
from sluicegate.spark_sql.identifiers import literal
from sluicegate.spark_sql.placeholders import Literals

ParamType = Literal[
    "string", "int", "bigint", "double", "decimal", "date", "timestamp", "boolean", "list<string>", "list<int>",
    "list<bigint>", "list<double>", "list<decimal>", "list<date>", "list<timestamp>",
]  # fmt: skip

_LARGEST = {"int": 2**31 - 1, "bigint": 2**63 - 1}
DIGITS = 38  # of Spark's widest DECIMAL
_IN_A_PATH = re.compile(r"\w[\w.=-]*")
# Of the characters that are no text, SQL has escapes for the line break; a tab is one that people do write.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class ParamValue:
    """A value of its type.

    Attributes:
        type: the type, of a list that of its items.
        items: the value, or the items of a list, each of Python's type.
        many: whether it is a list.
    """

    type: str
    items: tuple[Any, ...]
    many: bool = False

    @property
    def literals(self) -> Literals:
        """The value in SQL."""
        return Literals(", ".join(_literal(self.type, item) for item in self.items), self.many)

    @property
    def text(self) -> str:
        """The value as an option of a reader takes it.

        Raises:
            PydanticCustomError: it is a list.
        """
        if self.many:
            message = "a list is not supported here"
            raise field_error("param-place", message, "lists are for SQL, for example IN (${param:name})")
        return _text(self.type, self.items[0])

    @property
    def path_segment(self) -> str:
        """The value as a part of a path, which cannot lead out of a folder or be a pattern.

        Raises:
            PydanticCustomError: it is a list, or has other characters than a name.
        """
        text = self.text
        if not _IN_A_PATH.fullmatch(text) or ".." in text:
            raise field_error(
                "param-value",
                f"{text!r} is not a valid path segment: use letters, digits and _ - . =, not starting with - . or =",
                "write the fixed part into the path, and use the parameter for one segment",
            )
        return text

    def __str__(self) -> str:
        shown = [_text(self.type, item) for item in self.items]
        if self.many:
            return f"[{', '.join(shown)}]"
        return shown[0]


def parse_param_value(kind: ParamType, value: Any) -> ParamValue:
    """Convert YAML's value to the type of a parameter.

    Args:
        kind: type of a parameter.
        value: a text, number, boolean or list of them.

    Raises:
        PydanticCustomError: it is none of that type.
    """
    item_type = kind.removeprefix("list<").removesuffix(">")
    if item_type == kind:
        return ParamValue(kind, (_READ[kind](value),))
    if not isinstance(value, list) or not value:
        raise _wrong_type_error("a list with at least one item", "for example [one, two]", value)
    return ParamValue(item_type, tuple(_READ[item_type](item) for item in value), many=True)


def _parse_string(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_type_error("a text", 'put it in quotes: "…"', value)
    if "${" in value:
        # Spark puts values of its own for ${…} also within the quotes of a literal, such as those of its environment.
        raise field_error("param-value", f"{value!r} contains ${{, which Spark would replace", "write the value itself")
    if _CONTROL.search(value):
        message = f"{value!r} contains a control character"
        raise field_error("param-value", message, "only line breaks and tabs are allowed")
    return value


def _integer_parser(kind: str) -> Callable[[Any], int]:
    largest = _LARGEST[kind]

    def parse_integer(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong_type_error("an integer", "for example 42, without quotes", value)
        if not -largest <= value <= largest:
            message = f"{value} is out of range for {kind}"
            raise field_error("param-value", message, "write type: bigint" if kind == "int" else "")
        return value

    return parse_integer


def _parse_double(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise _wrong_type_error("a finite number", "for example 0.5, without quotes", value)
    return float(value)


def _parse_decimal(value: Any) -> Decimal:
    number = Decimal("NaN")
    if not isinstance(value, (bool, list, dict)):
        with suppress(InvalidOperation):
            number = Decimal(str(value))
    if not number.is_finite():
        raise _wrong_type_error("a decimal number", 'for example "19.90", in quotes, which keep trailing zeros', value)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or max(len(digits), -exponent) + max(exponent, 0) > DIGITS:
        raise field_error("param-value", f"{value} has more than {DIGITS} digits", "write type: double")
    return number


def _parse_date(value: Any) -> date:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
        with suppress(ValueError):
            return date.fromisoformat(value)
    raise _wrong_type_error("a date", "for example 2024-05-01", value)


def _parse_timestamp(value: Any) -> datetime:
    try:
        time = datetime.fromisoformat(value)
        if time.tzinfo:
            return time.astimezone(UTC)
        return time.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):  # the last: in UTC it is in no year that there is
        raise _wrong_type_error("a time", "for example 2024-05-01T12:00:00Z (UTC if it has no zone)", value) from None


def _parse_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type_error("true or false", "without quotes", value)
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "string": _parse_string, "int": _integer_parser("int"), "bigint": _integer_parser("bigint"),
    "double": _parse_double, "decimal": _parse_decimal,
    "date": _parse_date, "timestamp": _parse_timestamp, "boolean": _parse_boolean,
}  # fmt: skip


def _wrong_type_error(expected: str, hint: str, value: Any) -> Exception:
    shown = {type(None): "nothing", dict: "a set of fields"}.get(type(value), value)
    return field_error("param-value", f"expected {expected}, got {shown}", hint)


def _text(kind: str, item: Any) -> str:
    if kind == "boolean":
        return str(item).lower()
    if kind == "timestamp":
        return str(item.isoformat()).replace("+00:00", "Z")
    if kind == "decimal":
        return f"{item:f}"
    return str(item)


def _literal(kind: str, item: Any) -> str:
    """Write a value as a Spark SQL literal of exactly this type.

    A signed literal is in parentheses, so that ``x -${param:y}`` does not start a comment.
    """
    text = _text(kind, item)
    match kind:
        case "string":
            return literal(text).replace("\n", "\\n")
        case "date":
            return f"DATE {literal(text)}"
        case "timestamp":
            return f"TIMESTAMP {literal(text.replace('T', ' '))}"
        case "boolean":
            return text.upper()
    suffix = {"bigint": "L", "double": "D", "decimal": "BD"}.get(kind, "")
    number = text.replace("e+", "e") + suffix
    if number.startswith("-"):
        return f"({number})"
    return number
