"""Draft of a definition that a source becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Draft:
    """Tables of a definition in the making.

    Attributes:
        bronze: fields of each bronze table.
        silver: fields of each silver table.
        gold: fields of each gold table.
        queries: the query of each table that has one.
        comments: comments above a table: its own, and what it was in the source.
        rules_left: rules that could not be converted.
        imported: addresses of the declared tables that were converted.
        missing: addresses of those that were not, with the line that declares each.
    """

    bronze: dict[str, dict[str, Any]] = field(default_factory=dict)
    silver: dict[str, dict[str, Any]] = field(default_factory=dict)
    gold: dict[str, dict[str, Any]] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    comments: dict[str, list[str]] = field(default_factory=dict)
    rules_left: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)

    @property
    def table_names(self) -> set[str]:
        """Names of all tables."""
        return {*self.bronze, *self.silver, *self.gold}
