"""Casts of a query, and which of its values can fail to convert."""

from __future__ import annotations
