"""Columns of a silver table: declared, absent, changed, reserved, and those that are read."""

from __future__ import annotations
