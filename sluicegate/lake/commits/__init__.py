"""Commits of a Delta table: their identity, their statistics, small ones without Spark, and compaction."""

from __future__ import annotations
