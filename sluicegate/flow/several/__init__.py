"""Batches and progress of a table that several flows fill."""

from __future__ import annotations
