"""Comparison of rows and values by type: equality, differences between two tables, merges."""

from __future__ import annotations
