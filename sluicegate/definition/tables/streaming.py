"""Fields of a gold table that make it a classic streaming aggregation."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from sluicegate.definition.fields import IDENTIFIER, Duration, Part, field_error

Mode = Literal["complete", "update", "append"]

# Description of each mode, as a part of a sentence.
BEHAVIOUR: dict[Mode, str] = {
    "complete": "mode complete writes all groups in each batch",
    "update": "mode update writes the groups that have new rows, without rows that are too late for the watermark",
    "append": "mode append writes a group once, when its time is over; rows that arrive later are dropped",
}


class Streamed(Part):
    """Streaming fields of a gold table; see ``GoldTable``."""

    mode: Mode | None = None
    withWatermark: dict[str, Duration] = {}

    @property
    def stream_settings(self) -> list[str]:
        """Mode and watermark, which with the query determine a streaming aggregation; empty if it is none."""
        times = [f"{column} {delay.total_seconds()}" for column, delay in self.withWatermark.items()]
        if self.mode:
            return [self.mode, *times]
        return []

    @model_validator(mode="after")
    def _check_watermark(self) -> Streamed:
        if self.mode is None and self.withWatermark:
            message = "withWatermark requires mode"
            raise field_error("missing-field", message, "for example mode: append")
        if self.mode == "append" and not self.withWatermark:
            message = "mode append requires withWatermark, which determines when a group is complete"
            raise field_error("missing-field", message, "for example withWatermark: {time: 10 minutes}")
        if len(self.withWatermark) > 1 or not all(IDENTIFIER.fullmatch(column) for column in self.withWatermark):
            message = f"withWatermark takes one column with a duration, not {', '.join(self.withWatermark)}"
            raise field_error("wrong-type", message, "for example {time: 10 minutes}")
        return self
