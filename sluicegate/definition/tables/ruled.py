"""Base model of tables with rules: expectations of their rows, and rules about the whole table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property

from pydantic import Field

from sluicegate.definition.fields import Part
from sluicegate.definition.tables.expectations import EXPECT_ALL, Expectation
from sluicegate.definition.tables.table_rules import TableRules


class Ruled(Part):
    """A table with expectations, in whichever of the fields for them its layer has, and rules about the whole table."""

    # Of no row do they decide what it is, so the fingerprint of a table is made without them.
    expect_table: TableRules = Field({}, exclude=True)

    @property
    def rules(self) -> Iterator[tuple[str, str, Expectation]]:
        """Field, name and expectation of each rule about rows, in the order of the fields."""
        yield from (("expectations", name, rule) for name, rule in getattr(self, "expectations_", {}).items())
        for field, kind in EXPECT_ALL.items():
            for name, condition in getattr(self, field, {}).items():
                yield field, name, Expectation(**{kind: condition})

    @cached_property
    def expectations(self) -> dict[str, Expectation]:
        """All expectations by name, of all fields."""
        return {name: rule for _, name, rule in self.rules}

    @property
    def has_rules(self) -> bool:
        """Whether its rows are held to anything before they are committed."""
        return bool(self.expectations or self.expect_table)

    def rules_read(self, name: str) -> list[str]:
        """Return the tables that rules about the whole table ``name`` read, except itself."""
        return list(dict.fromkeys(read for rule in self.expect_table.values() for read in rule.reads(name)))

    @property
    def _table_rules(self) -> list[str]:
        """Texts that differ where the rules about the whole table do."""
        return [f"{name} {rule.fingerprint}" for name, rule in self.expect_table.items()]

    @property
    def rules_fingerprint(self) -> str:
        """Hash of the rules that all rows have to meet, and not only those that come; empty without any."""
        return fingerprint(self._table_rules)


def fingerprint(texts: list[str]) -> str:
    """Return a short hash of texts, empty for none."""
    if texts:
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    return ""
