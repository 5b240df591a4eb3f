"""Tree of a query with each function call as it is written, by its name and its arguments, and mistakes in it.

sqlglot has classes for most functions, with names and arguments of its own, which are not those that Spark checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from sluicegate.spark_sql.tokens import parse_sql

# Functions whose arguments are not a list with commas, and the words in hints.
_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "BROADCAST",
               "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLEMERGE", "SHUFFLE_HASH",
               "SHUFFLE_REPLICATE_NL")  # fmt: skip


class PlainSpark(Spark):
    """Spark's dialect without classes for its functions."""

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: SparkParser.FUNCTION_PARSERS[name] for name in _OWN_SYNTAX}


def parse_plainly(text: str) -> exp.Expr:
    """Parse a text, with each function call as ``exp.Anonymous``.

    Raises:
        QuerySyntax: sqlglot cannot parse it.
    """
    return parse_sql(text, PlainSpark)


@dataclass(frozen=True)
class SqlMistake:
    """A mistake in a query.

    Attributes:
        code: its stable code.
        node: the node of the tree where it is.
        message: what is wrong.
        hint: what is right; empty if nobody can tell.
    """

    code: str
    node: exp.Expr = field(compare=False)
    message: str
    hint: str = ""

    @property
    def line(self) -> int:
        """Line of the first name or word of the node; 1 if sqlglot has none."""
        lines = [part.meta["line"] for part in self.node.walk() if "line" in part.meta]
        return min(lines, default=1)
