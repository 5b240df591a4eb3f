"""Values of parameters: checked by their types, and written as SQL literals, option values and parts of a path."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from sluicegate.definition.fields import wrong
from sluicegate.sql.identifiers import literal
from sluicegate.sql.placeholders import Literals

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
            raise wrong("param-place", "a list has no meaning here", "lists are for SQL, as in IN (${param:name})")
        return _text(self.type, self.items[0])

    @property
    def in_path(self) -> str:
        """The value as a part of a path, which cannot lead out of a folder or be a pattern.

        Raises:
            PydanticCustomError: it is a list, or has other characters than a name.
        """
        text = self.text
        if not _IN_A_PATH.fullmatch(text) or ".." in text:
            raise wrong(
                "param-value",
                f"{text!r} cannot be a part of a path: letters, digits and _ - . = are allowed, a letter, digit or _"
                " first",
                "write what is fixed of the path into it, and leave one name to the parameter",
            )
        return text

    def __str__(self) -> str:
        shown = [_text(self.type, item) for item in self.items]
        return f"[{', '.join(shown)}]" if self.many else shown[0]


def value_of(kind: ParamType, given: Any) -> ParamValue:
    """The value of a type that YAML's value is.

    Args:
        kind: type of a parameter.
        given: a text, number, boolean or list of them.

    Raises:
        PydanticCustomError: it is none of that type.
    """
    item_type = kind.removeprefix("list<").removesuffix(">")
    if item_type == kind:
        return ParamValue(kind, (_READ[kind](given),))
    if not isinstance(given, list) or not given:
        raise _other("a list with at least one item", "as in [one, two]", given)
    return ParamValue(item_type, tuple(_READ[item_type](item) for item in given), many=True)


def _string(given: Any) -> str:
    if not isinstance(given, str):
        raise _other("a text", 'put it in quotes: "…"', given)
    if "${" in given:
        # Spark puts values of its own for ${…} also within the quotes of a literal, such as those of its environment.
        raise wrong("param-value", f"{given!r} has ${{ in it, which Spark would replace", "write the value itself")
    if _CONTROL.search(given):
        raise wrong("param-value", f"{given!r} has a control character in it", "only line breaks and tabs are text")
    return given


def _whole(kind: str) -> Callable[[Any], int]:
    largest = _LARGEST[kind]

    def read(given: Any) -> int:
        if not isinstance(given, int) or isinstance(given, bool):
            raise _other("a whole number", "as in 42, without quotes", given)
        if not -largest <= given <= largest:
            raise wrong("param-value", f"{given} is no {kind}", "write type: bigint" if kind == "int" else "")
        return given

    return read


def _double(given: Any) -> float:
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not math.isfinite(given):
        raise _other("a finite number", "as in 0.5, without quotes", given)
    return float(given)


def _decimal(given: Any) -> Decimal:
    try:
        number = Decimal(str(given)) if not isinstance(given, (bool, list, dict)) else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise _other("a decimal number", 'as in "19.90", in quotes, which keep a zero at the end', given)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or max(len(digits), -exponent) + max(exponent, 0) > DIGITS:
        raise wrong("param-value", f"{given} has more than {DIGITS} digits", "write type: double")
    return number


def _date(given: Any) -> date:
    try:
        return date.fromisoformat(given) if re.fullmatch(r"\d{4}-\d\d-\d\d", str(given)) else _no_date(given)
    except ValueError:
        return _no_date(given)


def _no_date(given: Any) -> date:
    raise _other("a date", "as in 2024-05-01", given)


def _timestamp(given: Any) -> datetime:
    try:
        time = datetime.fromisoformat(given)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):  # the last: in UTC it is in no year that there is
        raise _other("a time", "as in 2024-05-01T12:00:00Z; without a zone it is UTC", given) from None


def _boolean(given: Any) -> bool:
    if not isinstance(given, bool):
        raise _other("true or false", "without quotes", given)
    return given


_READ: dict[str, Callable[[Any], Any]] = {
    "string": _string, "int": _whole("int"), "bigint": _whole("bigint"), "double": _double, "decimal": _decimal,
    "date": _date, "timestamp": _timestamp, "boolean": _boolean,
}  # fmt: skip


def _other(expected: str, hint: str, given: Any) -> Exception:
    shown = "nothing" if given is None else "a set of fields" if isinstance(given, dict) else str(given)
    return wrong("param-value", f"{expected} is expected, and there is {shown}", hint)


def _text(kind: str, item: Any) -> str:
    if kind == "boolean":
        return "true" if item else "false"
    if kind == "timestamp":
        return str(item.isoformat()).replace("+00:00", "Z")
    return f"{item:f}" if kind == "decimal" else str(item)


def _literal(kind: str, item: Any) -> str:
    """A literal of Spark SQL, of just this type. One with a sign is in parentheses: ``x -${param:y}`` is no comment."""
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
    return f"({number})" if number.startswith("-") else number
