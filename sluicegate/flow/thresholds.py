"""Measured thresholds at which reading a whole table is cheaper than finding its changes."""

from __future__ import annotations

# Up to this many records, use one partition: a shuffle costs more than the work.
FEW = 20_000

# Up to this many rows, a full recompute costs less than keeping state.
SMALL = 100_000

# Up to this many rows of a gold table, a full recompute writes only those that differ: to compare a million costs some
# seconds on two cores, to overwrite them one or two.
COMPARED = 10_000_000
