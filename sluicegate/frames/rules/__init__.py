"""Expectations of rows and rules of tables, as conditions of Spark."""

from __future__ import annotations
