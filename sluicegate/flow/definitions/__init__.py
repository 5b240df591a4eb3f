"""What a changed definition means for the rows that are stored."""

from __future__ import annotations
