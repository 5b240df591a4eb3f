"""Mistakes of a definition that need all of its tables: columns, reads, rules, flows, types."""

from __future__ import annotations
