"""``sluicegate import``: sources of Delta Live Tables read, and taken to a definition as far as that goes."""

from __future__ import annotations
