"""Texts of queries, each for Spark and for DuckDB side by side; neither is made of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """An expression or a query: Spark's text, and DuckDB's; None if DuckDB has no such thing or means another by it."""

    spark: str
    duck: str | None
    kind: str = ""

    @property
    def both(self) -> tuple[str, str | None]:
        """The two texts."""
        return self.spark, self.duck


def joined(pattern: str, *parts: Text, kind: str = "") -> Text:
    """A text made of others, for which ``{}`` stand."""
    ducks = [part.duck for part in parts]
    duck = None if None in ducks else pattern.format(*ducks)
    return Text(pattern.format(*[part.spark for part in parts]), duck, kind)


def name(text: str) -> Text:
    """A quoted name."""
    return Text(f"`{text}`", f'"{text}"')


def listed(texts: Sequence[Text]) -> Text:
    """Texts with commas between."""
    return joined(", ".join(["{}"] * len(texts)), *texts)
