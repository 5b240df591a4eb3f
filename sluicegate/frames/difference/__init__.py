"""Rows and values compared by type: equality, differences between two tables, and merges."""

from __future__ import annotations
