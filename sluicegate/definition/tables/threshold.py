"""Threshold of an expectation: how many rows, or which share of them, may break it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator

from sluicegate.definition.fields import field_error

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True)
class Threshold:
    """A number of rows, or a share of all rows, as written.

    Attributes:
        text: as written: ``100``, or ``0.5%``.
        number: rows, or the share, from 0 to 1, without rounding.
        is_share: whether it is a share.
    """

    text: str
    number: Fraction
    is_share: bool

    def is_exceeded(self, failed: int, rows: int) -> bool:
        """Return whether the failed rows are more than the threshold allows; exactly as many are not."""
        return failed > (self.number * rows if self.is_share else self.number)


def _parse_threshold(value: Any) -> Any:
    if isinstance(value, Threshold):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Threshold(f"{value:,}", Fraction(value), False)
    percent = None
    if isinstance(value, str):
        percent = _PERCENT.fullmatch(value.strip())
    if percent is None or Fraction(percent[1]) > 100:
        hint = "write a number of rows such as 100, or a share from 0% to 100% such as 0.5%"
        raise field_error("threshold", f"{value} is neither a number of rows nor a share", hint)
    return Threshold(f"{percent[1]}%", Fraction(percent[1]) / 100, True)


RowThreshold = Annotated[Threshold, BeforeValidator(_parse_threshold, json_schema_input_type=int | str)]
