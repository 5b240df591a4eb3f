"""When it is cheaper to read all of a table than to look for what changed in it: measured, not reckoned."""

from __future__ import annotations

# What becomes of so few records one task works out by itself: to shuffle them takes longer than all else.
FEW = 20_000

# To read so many rows takes less time than to keep anything of them.
SMALL = 100_000

# Where more of the source's rows changed than this part of them, it is cheaper to read all.
MUCH = 0.5
