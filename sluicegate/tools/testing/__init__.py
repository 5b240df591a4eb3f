"""Tests of a pipeline: rows that land, and the rows that its tables must then have. ``sluicegate test`` runs them."""

from __future__ import annotations
