"""Types of columns: that of all values of all rows, else that of nearly all, else text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluicegate.spark_sql.types import MOST_DIGITS
from sluicegate.tools.scaffold import readings
from sluicegate.tools.scaffold.all_rows import AllRows, ColumnTexts
from sluicegate.tools.scaffold.naming import words
from sluicegate.tools.scaffold.near_types import is_cast
from sluicegate.tools.scaffold.nearly import ENOUGH, has_few_exceptions
from sluicegate.tools.scaffold.readings import Kind, Reading

MOST_MISFITS = 10
"""Most different values that may not fit: more of them are no mistakes, but another kind of value, as ``12a`` is."""

_TIME_WORDS = {
    "time", "timestamp", "ts", "date", "datetime", "epoch", "at", "created", "updated", "modified", "day",
}  # fmt: skip
_TIME_UNITS = {"s", "sec", "seconds", "ms", "millis", "utc"}
# Names of amounts, such as sales_to_date and bytes_per_day.
_AMOUNT_WORDS = {"to", "per", "bytes", "duration", "count", "total", "sum", "amount", "revenue"}
# Names of texts among which 12E4 is no number.
_ID_WORDS = {
    "id", "ids", "uuid", "guid", "sku", "code", "codes", "git", "commit", "sha", "hash", "hex", "key", "ref", "number",
    "no", "nr", "serial", "lot", "batch", "part", "article", "item", "product", "model", "mac", "token",
}  # fmt: skip
# Names of numbers such as 1.10 and 10.4.11, which are neither numbers nor days.
_VERSION_WORDS = {"version", "release", "section", "chapter", "clause", "build", "firmware", "ip"}
# Names of codes and letters, of which NO, N or T is one like others.
_CODE_WORDS = {
    "country", "land", "nation", "nationality", "iso", "lang", "language", "locale", "state", "province", "region",
    "currency", "initial", "initials", "axis", "direction", "code", "symbol", "ticker", "grade", "size", "class",
}  # fmt: skip
TEXT_WORDS = {
    "phone", "mobile", "fax", "tel", "telephone", "zip", "zipcode", "postcode", "postal", "postalcode", "plz", "iban",
}  # fmt: skip


@dataclass(frozen=True)
class Misfits:
    """Values that do not fit the type that nearly all of a column's values have.

    Attributes:
        count: their number.
        among: the number of all values, those that stand for NULL left out.
        example: the first of them. It is for people who have the files, and for nothing that is written.
        place: where that one is, as ``record 7 of orders.csv``.
    """

    count: int
    among: int
    example: str
    place: str


@dataclass(frozen=True)
class InferredType:
    """Type of a column's values.

    Attributes:
        kind: the type that silver gives them.
        pattern: SQL that casts the column to it, with ``{}`` for the column.
        nothing: words among the values that stand for NULL.
        remark: what a reader should know about it (may be empty).
        is_guess: whether the values alone do not determine it.
        misfits: values that do not fit it, if there are some.
        value: DuckDB's value of a text ``t``, as silver has it; NULL if it does not fit.
        missing: rows without a value.
        is_trimmed: whether silver has to take away the blanks around it first.
    """

    kind: Kind
    pattern: str = "{}"
    nothing: tuple[str, ...] = ()
    remark: str = ""
    is_guess: bool = False
    misfits: Misfits | None = None
    value: str = "t"
    missing: int = 0
    is_trimmed: bool = False


def infer_type(rows: AllRows, number: int, name: str, *, commas: bool, quoted: bool) -> InferredType:
    """Type of a column of texts.

    Args:
        rows: all rows of the files.
        number: the column's number among their fields.
        name: its name, which distinguishes times from numbers.
        commas: whether a comma may stand for a decimal point.
        quoted: whether the files say that the values are texts.
    """
    column = rows.columns[number]
    text = InferredType("STRING", missing=column.missing)
    if not column.full:
        return dataclasses.replace(text, remark="no value was seen")
    first = column.first()
    likely = _likely_readings(_readings(name, commas=commas, quoted=quoted), first)
    reading, misfits, remark = _choose_reading(column, likely)
    if reading is None:
        return dataclasses.replace(text, remark=remark or _remark_on_texts(first))
    if len(column.nulls) > 2 and column.full < ENOUGH:
        return dataclasses.replace(text, remark="numbers or times with several words for nothing among them")
    if reading.kind == "DECIMAL":
        reading = _with_scale(column, reading)
    if reading is None:
        return dataclasses.replace(text, remark="numbers with more digits than a number keeps: text")
    remark = reading.remark
    if column.nulls:
        words_for_null = " or ".join(f"'{word}'" for word in column.nulls)
        remark = f"{remark}; {words_for_null} is taken for NULL".removeprefix("; ")
    return InferredType(
        reading.kind,
        reading.pattern,
        column.nulls,
        remark,
        reading.is_guess or misfits is not None or bool(column.nulls),
        misfits,
        reading.checked_value,
        rows.count - column.full,
        # A cast takes blanks away itself.
        column.padded and (bool(column.nulls) or "CAST({} AS" not in reading.pattern),
    )


def _likely_readings(tried: Iterator[Reading], texts: Sequence[str]) -> list[Reading]:
    """Readings whose form half of some texts have."""
    return [reading for reading in tried if 2 * sum(map(reading.matches, texts)) >= len(texts)]


def _readings(name: str, *, commas: bool, quoted: bool) -> Iterator[Reading]:
    """Readings in the order in which they are preferred."""
    name_words = words(name)
    is_number = not _is_name_of_text(name_words)
    if is_number and _is_name_of_time(name_words):
        yield from readings.EPOCHS
    is_version = _is_name_of_version(name_words)
    codes = quoted or bool(_ID_WORDS.intersection(name_words))
    if is_number:
        numbers = readings.numbers_as_cast(commas=commas, codes=codes)
        yield from (reading for reading in numbers if reading.kind == "BIGINT" or not is_version)
    yield from readings.ISO_TIMES
    yield readings.TRUE_OR_FALSE
    if not _CODE_WORDS.intersection(name_words[-1:]):
        yield from readings.ANSWERS
    if is_number and not is_version:
        yield from readings.written_numbers(commas=commas)
    yield from (reading for reading in readings.WRITTEN_TIMES if not (is_version and reading.is_guess))


def _is_name_of_time(name_words: Sequence[str]) -> bool:
    """Whether a name says that its numbers are times: by its last word, that for a unit left out."""
    if _AMOUNT_WORDS.intersection(name_words):
        return False
    without_unit = [word for word in name_words if word not in _TIME_UNITS]
    return bool(_TIME_WORDS.intersection(without_unit[-1:]))


def _is_name_of_text(name_words: Sequence[str]) -> bool:
    without_digits = {word.rstrip("0123456789") for word in name_words}
    return bool(TEXT_WORDS & without_digits) or without_digits >= {"contact", "number"}


def _is_name_of_version(name_words: Sequence[str]) -> bool:
    without_digits = {word.rstrip("0123456789") for word in name_words}
    return bool(_VERSION_WORDS & without_digits) and not _is_name_of_time(name_words)


def _choose_reading(column: ColumnTexts, tried: Sequence[Reading]) -> tuple[Reading | None, Misfits | None, str]:
    """Reading of all texts, or of nearly all with the others; or none, with a remark on why."""
    if not tried:
        return None, None, ""
    counts = ", ".join(f"count({reading.checked_value}), {reading.evidence}" for reading in tried)
    (answer,) = column.query(counts)
    full, fitting = column.full, dict(zip(tried, answer[::2], strict=True))
    likely = [reading for reading, evidence in zip(tried, answer[1::2], strict=True) if evidence]
    of_all = [reading for reading in likely if fitting[reading] == full]
    if of_all:
        reading, question = _settle_order(of_all)
        return reading, None, question
    return _choose_near_reading(column, {reading: full - fitting[reading] for reading in likely})


def _choose_near_reading(
    column: ColumnTexts, misfits_of: Mapping[Reading, int]
) -> tuple[Reading | None, Misfits | None, str]:
    """Reading of nearly all texts, by the number of texts that each reading does not read."""
    examples = {}
    for reading, count in misfits_of.items():
        # An answer beside other words is one of several: NO is a country, and N a size.
        if reading not in readings.ANSWERS and has_few_exceptions(count, column.full):
            texts = column.texts_without(reading.checked_value, MOST_MISFITS + 1)
            if len(texts) <= MOST_MISFITS and not any(_may_be_other(reading, text.trimmed) for text in texts):
                examples[reading] = texts[0]
    if not examples:
        return None, None, ""
    near, question = _settle_order(list(examples))
    if near is None:
        return None, None, question
    text, place = examples[near].text, column.rows.place(examples[near].row)
    return near, Misfits(misfits_of[near], column.full, text, place), ""


def _settle_order(fitting: Sequence[Reading]) -> tuple[Reading | None, str]:
    """The first of the readings; none, with a question, if another one differs in the order of a date's parts."""
    same = [reading.pattern for reading in fitting if reading.order and reading.order == fitting[0].order]
    if len(same) > 1:
        return None, "which part is the day? " + " or ".join(pattern.format("…") for pattern in same)
    return fitting[0], ""


def _may_be_other(reading: Reading, misfit: str) -> bool:
    """Whether a text that does not fit may be a value all the same: another one by Spark, or another day."""
    if reading.order:
        return reading.matches(misfit)
    return is_cast(reading.kind, reading.pattern, misfit)


def _with_scale(column: ColumnTexts, reading: Reading) -> Reading | None:
    """DECIMAL with as many digits behind the point as any value has; None if it would have too many in all."""
    ((scale, whole),) = column.query(
        "max(length(split_part(t, '.', 2))), max(length(ltrim(split_part(t, '.', 1), '-')))",
        f"{reading.checked_value} IS NOT NULL",
    )
    if scale + whole > MOST_DIGITS:
        return None
    kind = f"DECIMAL({MOST_DIGITS}, {scale})"
    return dataclasses.replace(reading, value=f"try_cast(t AS {kind})", pattern=f"CAST({{}} AS {kind})")


def _remark_on_texts(texts: Sequence[str]) -> str:
    if all(text.isdigit() for text in texts) and any(re.fullmatch(r"0[0-9]+", text) for text in texts):
        return "text, as a number would lose the zeros in front"
    by_threes = [text for text in texts if re.fullmatch(r"\D{0,2}[1-9][0-9]{0,2}[.,][0-9]{3}\D{0,2}", text)]
    if 2 * len(by_threes) >= len(texts):
        return "a point or comma before three digits: thousands, or a fraction?"
    return ""
