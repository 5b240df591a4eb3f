"""Sample files and records for a verification: another part each day, until all were compared.

A name, or the number of a record, has a fixed place in [0, 1). A day's sample is an interval, which starts further
along each day by an irrational share. So the intervals cover all places in time: with 10 %, after 25 daily, weekly or
monthly samples.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

# Part of the whole by which the sample begins further on the next day; also its 7 and 30 times spread evenly.
STEP = 10**0.5 - 3


def _today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Sample:
    """Share of files and records that a verification compares.

    Attributes:
        percent: size of the part; 100 for everything.
        day: the day of the sample, in UTC.
    """

    percent: float = 100
    day: date = field(default_factory=_today)

    @property
    def is_whole(self) -> bool:
        """Whether everything is compared."""
        return self.percent >= 100

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Half-open intervals in [0, 1) that are in the sample."""
        begin = self.day.toordinal() * STEP % 1
        end = begin + self.percent / 100
        if self.is_whole:
            return [(0, 1)]
        if end <= 1:
            return [(begin, end)]
        return [(begin, 1), (0, end - 1)]

    def has(self, *names: str) -> bool:
        """Return whether an item with these names is in the sample."""
        digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).digest()
        place = int.from_bytes(digest[:6], "big") / 2**48
        return any(begin <= place < end for begin, end in self.intervals)

    def __str__(self) -> str:
        return f"a sample of {self.percent:g} %"


EVERYTHING = Sample(100, date.min)
