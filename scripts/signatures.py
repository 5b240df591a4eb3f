"""Write the table of Spark's functions and operators: ``python -m scripts.signatures``, which asks Spark.

Spark analyses each of them over columns and literals of each kind, with its ANSI mode and without, as rules are
evaluated without it. Refused is what both refuse because of the types; a result is a kind if both give that kind.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import product

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluicegate.spark.session import override_settings, session_inside
from sluicegate.spark_sql.analysis.signatures import ALL_KINDS, KINDS, REFUSED, TABLE, UNKNOWN

VIEW = "typed"
TYPES = {"decimal": ("DECIMAL(10,2)", "DECIMAL(38,18)", "DECIMAL(3,0)")}
LITERALS = {"text": ("'1'", "'2020-01-01'", "'a'"), "whole": ("1",), "fraction": ("1.5",)}

# As Spark's parser has a rule of its own for them, their arguments are not those that a text has.
OF_THE_GRAMMAR = ("timestampadd", "timestampdiff", "timediff", "dateadd", "datediff", "date_add", "date_diff",
                  "identifier", "stream", "table", "any", "all", "some")  # fmt: skip

# More arguments than any function has that does not take any number of them.
TOO_MANY, FEW = 12, 4

UNARY = {"not": "NOT {}", "negative": "- {}", "condition": "CASE WHEN {} THEN 1 END"}
BINARY = {
    "+": "{} + {}", "-": "{} - {}", "*": "{} * {}", "/": "{} / {}", "%": "{} % {}", "div": "{} DIV {}",
    "=": "{} = {}", "<": "{} < {}", "and": "{} AND {}", "||": "{} || {}", "&": "{} & {}",
    "like": "{} LIKE {}", "rlike": "{} RLIKE {}",
}  # fmt: skip

MODES = ("true", "false")

# The error of a call whose types do not fit, and of one whose arguments are too many or too few.
OF_TYPES, OF_COUNT = "DATATYPE_MISMATCH", "WRONG_NUM_ARGS"

HEAD = (
    "# Functions with their numbers of arguments (+: and more), and results by the kinds of arguments (- refused,\n"
    "# ? unknown). Written by scripts/signatures.py.\n"
)


def main() -> None:
    """Writes the table."""
    spark = session_inside("signatures", "-Xms1g")
    logging.getLogger("SQLQueryContextLogger").disabled = True  # it writes the stack of each refusal
    with TABLE.open("w", encoding="utf-8", buffering=1) as table:
        table.write(HEAD)
        table.writelines(f"{line}\n" for line in lines(spark))
    spark.stop()


def lines(spark: SparkSession) -> Iterator[str]:
    """Lines of the table."""
    create_view(spark)
    names = function_names(spark)
    unary = []
    for name in [*names, *(name for name in OF_THE_GRAMMAR if name not in names)]:
        counts = "" if name in OF_THE_GRAMMAR else argument_counts(spark, name)
        yield f"function\t{name}\t{counts}\t{'bare' if is_bare(spark, name) else ''}"
        if "1" in counts.split():
            unary.append(name)
    for form, text in UNARY.items():
        yield from result_rows(spark, form, text, 1)
    for form, text in BINARY.items():
        yield from result_rows(spark, form, text, 2)
    for kind in KINDS:
        for form in ("CAST", "TRY_CAST"):
            yield from result_rows(spark, f"{form.lower()} {kind}", f"{form}({{}} AS {TYPES.get(kind, (kind,))[0]})", 1)
    for name in unary:
        yield from result_rows(spark, name, f"{name}({{}})", 1)


def create_view(spark: SparkSession) -> None:
    """Creates the empty view with columns of all kinds: a literal would be converted where a column is not."""
    columns = (f"{column} {kind}" for kind in KINDS for column, kind in zip(samples(kind), types(kind), strict=True))
    spark.createDataFrame([], ", ".join(columns)).createOrReplaceTempView(VIEW)


def types(kind: str) -> tuple[str, ...]:
    """Spark's types of a kind."""
    return TYPES.get(kind, (kind,))


def samples(kind: str) -> tuple[str, ...]:
    """Expressions of a kind: columns of the view, or literals."""
    return LITERALS.get(kind, tuple(f"of_{kind}_{number}" for number in range(len(types(kind)))))


def function_names(spark: SparkSession) -> list[str]:
    """Names of the functions that Spark knows."""
    rows = spark.sql("SHOW SYSTEM FUNCTIONS").collect()
    return sorted(row.function for row in rows if row.function.isidentifier())


def argument_counts(spark: SparkSession, name: str) -> str:
    """Numbers of arguments that Spark accepts, + behind them if it takes any more; empty if Spark's word is no good.

    With too many arguments Spark says how many it expects, and of some functions not all: they are tried with few.
    """
    condition, parameters = refusal(spark, call(name, TOO_MANY))
    if not condition.startswith(OF_COUNT):
        return " ".join(str(count) for count in range(TOO_MANY) if accepts(spark, name, count)) + "+"
    expected = [*map(int, re.findall(r"\d+", parameters["expectedNum"]))]
    if any(accepts(spark, name, count) != (count in expected) for count in range(FEW)):
        return ""
    return " ".join(map(str, expected))


def accepts(spark: SparkSession, name: str, count: int) -> bool:
    """Whether Spark does not refuse a number of arguments."""
    return not refusal(spark, call(name, count))[0].startswith(OF_COUNT)


def call(name: str, count: int) -> str:
    """Call of a function with arguments that fit every type."""
    return f"{name}({', '.join(['NULL'] * count)})"


def is_bare(spark: SparkSession, name: str) -> bool:
    """Whether a name alone calls a function."""
    return not refusal(spark, name)[0]


def result_rows(spark: SparkSession, form: str, text: str, arguments: int) -> Iterator[str]:
    """Rows of a form: one for each choice of its arguments but the last, with a result for each kind of that."""
    for before in product(ALL_KINDS, repeat=arguments - 1):
        results = results_of_kinds(spark, text, before)
        if set(results) != {UNKNOWN}:
            yield "\t".join(["result", form, *before, " ".join(results)])


def results_of_kinds(spark: SparkSession, text: str, kinds: Sequence[str]) -> list[str]:
    """Kind of a form's result over arguments of some kinds and each of all kinds; see the table."""
    expressions = [[text.format(*chosen) for chosen in product(*map(samples, (*kinds, last)))] for last in ALL_KINDS]
    results: list[set[str]] = [set() for _ in ALL_KINDS]
    numbered = [(number, expression) for number, of_kind in enumerate(expressions) for expression in of_kind]
    for mode in MODES:
        with override_settings(spark, {"spark.sql.ansi.enabled": mode}):
            outcomes = kinds_of(spark, [expression for _, expression in numbered])
        for (number, _), outcome in zip(numbered, outcomes, strict=True):
            results[number].add(outcome)
    return [UNKNOWN if len(of_kind) > 1 else of_kind.pop() for of_kind in results]


def kinds_of(spark: SparkSession, expressions: Sequence[str]) -> list[str]:
    """Kind of each expression; ``REFUSED`` if its types do not fit, ``UNKNOWN`` for any other type or error.

    All are tried at once, and halves of those that Spark refuses together.
    """
    columns = ", ".join(f"{expression} AS x{number}" for number, expression in enumerate(expressions))
    try:
        fields = spark.sql(f"SELECT {columns} FROM {VIEW}").schema.fields
    except (PySparkException, Py4JError) as error:  # some functions fail with errors of Java for odd arguments
        if len(expressions) == 1:
            return [REFUSED if is_of_types(error) else UNKNOWN]
        half = len(expressions) // 2
        return kinds_of(spark, expressions[:half]) + kinds_of(spark, expressions[half:])
    names = [field.dataType.simpleString().split("(")[0] for field in fields]
    return [name if name in KINDS else UNKNOWN for name in names]


def is_of_types(error: Exception) -> bool:
    """Whether an error is about types alone: not about a value, or about an argument that has to be a constant."""
    condition = (isinstance(error, PySparkException) and error.getCondition()) or ""
    return condition.startswith(OF_TYPES) and ("_TYPE" in condition or ".CAST_" in condition)


def refusal(spark: SparkSession, expression: str) -> tuple[str, dict[str, str]]:
    """Class and parameters of the error with which Spark refuses an expression; an empty class if it accepts it."""
    try:
        spark.sql(f"SELECT {expression}")
    except PySparkException as error:
        return error.getCondition() or UNKNOWN, error.getMessageParameters() or {}
    except Py4JError:
        return UNKNOWN, {}
    return "", {}


if __name__ == "__main__":
    main()
