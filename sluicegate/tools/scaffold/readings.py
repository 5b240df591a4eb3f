"""Ways to read a text as a value: what silver casts it by, and what DuckDB checks all rows of the files by."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sluicegate.spark_sql.types import MOST_DIGITS

Kind = Literal["BIGINT", "DOUBLE", "DECIMAL", "BOOLEAN", "DATE", "TIMESTAMP", "STRING", "NESTED", "OTHER"]

NUMBERS: tuple[Kind, ...] = ("BIGINT", "DOUBLE", "DECIMAL")
TIMES: tuple[Kind, ...] = ("DATE", "TIMESTAMP")

# What people write for NULL. Only these words ever get into the generated SQL.
NOTHING = (
    "", "NA", "N/A", "n/a", "NULL", "null", "None", "-", "?", "\\N", "#N/A", "NaN", "nan",
)  # fmt: skip

# Blanks around a value that Spark's casts take away: those of ASCII, and control characters.
BLANKS = "".join(map(chr, (*range(1, 33), 127)))

# Epoch seconds from 1990 to 2100; milliseconds are a thousand times that.
_EPOCH = (631_152_000, 4_102_444_800)

_WHOLE = "-?(?:0|[1-9][0-9]*)"
_NUMBER = rf"{_WHOLE}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_DAY = "[12][0-9]{3}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_ZONE = "(?:Z|[+-](?:(?:0[0-9]|1[0-7]):[0-5][0-9]|18:00))"
_BY_THREES = "(?:0|[1-9][0-9]{0,2}(?:,[0-9]{3})*)"
# A comma that three digits follow, and no fourth: `1,5` stays as it is, and does not cast.
_COMMAS_OF_THREES = ",(?=[0-9]{3}(?![0-9]))"
_POINTS_OF_THREES = "[.](?=[0-9]{3}(?![0-9]))"

# Microseconds of a time. Without a zone it is in UTC, and not in the zone of the machine.
_INSTANT = (
    "epoch_us(try_cast(t || CASE WHEN length(t) = 10 THEN ' 00:00Z'"
    f" WHEN regexp_matches(t, '{_ZONE}$') THEN '' ELSE 'Z' END AS TIMESTAMPTZ))"
)

# A DOUBLE keeps up to 15 digits of any number, and those that programs write for it: the shortest, or 17 as C does.
_DIGITS = "regexp_replace(regexp_replace({}, '[eE].*|[^0-9]', '', 'g'), '^0+|0+$', '', 'g')"
_FINITE = "CASE WHEN isfinite(try_cast(t AS DOUBLE)) THEN try_cast(t AS DOUBLE) END"


def _double(text: str) -> str:
    """DuckDB's DOUBLE of a text that has a number; NULL if it would lose digits."""
    number, digits = f"try_cast({text} AS DOUBLE)", _DIGITS.format(text)
    shortest, longest = _DIGITS.format(f"CAST({number} AS VARCHAR)"), _DIGITS.format(f"format('{{:.17g}}', {number})")
    is_exact = f"length({digits}) <= 15 OR {digits} IN ({shortest}, {longest})"
    return f"CASE WHEN isfinite({number}) AND ({is_exact}) THEN {number} END"


_DOUBLE = _double("t")


@dataclass(frozen=True)
class Reading:
    """Way to read texts.

    Attributes:
        kind: type of the values.
        form: regular expression for a whole text, for Python and for DuckDB.
        value: DuckDB's value of a text ``t`` of that form; NULL if it has none.
        pattern: SQL that casts a column so in silver, with ``{}`` for the column.
        evidence: aggregate of DuckDB that is true if the texts are likely to be meant so.
        remark: what a reader of silver should know (may be empty).
        is_guess: whether the texts could be meant otherwise.
        order: what readings share that only differ in the order of day, month and year.
    """

    kind: Kind
    form: str
    value: str
    pattern: str
    evidence: str = "true"
    remark: str = ""
    is_guess: bool = False
    order: str = ""

    def matches(self, text: str) -> bool:
        """Whether a text has the form."""
        return re.fullmatch(self.form, text) is not None

    @property
    def checked_value(self) -> str:
        """DuckDB's value of any text ``t``."""
        return f"CASE WHEN regexp_full_match(t, '{self.form}') THEN {self.value} END"


def _cast(kind: Kind) -> str:
    return f"CAST({{}} AS {kind})"


# A code such as 12E4 looks like a number with an exponent.
_HAS_CODE = "bool_or(regexp_full_match(t, '[0-9]+[eE][0-9]+'))"


def _is_no_thousand(text: str, form: str, points: str) -> str:
    """DuckDB's evidence that a point before three digits is that of a fraction: some number shows it, or none has it.

    Args:
        text: the text, without signs.
        form: the form of texts to look at.
        points: what may be such a point.
    """
    thousands, small = f"-?[1-9][0-9]{{0,2}}[{points}][0-9]{{3}}", "-?(?:0|[1-9][0-9]{0,2})"
    shows = f"regexp_full_match(t, '{form}') AND NOT regexp_full_match({text}, '{thousands}|{small}')"
    return f"(bool_or({shows}) OR NOT bool_or(regexp_full_match({text}, '{thousands}')))"


def numbers_as_cast(*, commas: bool, codes: bool) -> Iterator[Reading]:
    """Readings of numbers as a CAST reads them.

    Args:
        commas: whether a comma may stand for a decimal point, and so a point for thousands.
        codes: whether the texts may be codes.
    """
    if commas:
        fractions = _is_no_thousand("t", _NUMBER, ".")
    else:
        fractions = "true"
    numbers = f"{fractions} AND NOT {_HAS_CODE}"
    yield Reading("BIGINT", _WHOLE, "try_cast(t AS BIGINT)", _cast("BIGINT"))
    yield Reading("DOUBLE", _NUMBER, _DOUBLE, _cast("DOUBLE"), numbers)
    if not codes:
        exponents, remark = f"{fractions} AND {_HAS_CODE}", "E is taken for an exponent"
        yield Reading("DOUBLE", _NUMBER, _DOUBLE, _cast("DOUBLE"), exponents, remark, is_guess=True)
    digits = f"CASE WHEN length(t) <= {MOST_DIGITS + 2} THEN t END"
    yield Reading("DECIMAL", rf"{_WHOLE}(?:\.[0-9]+)?", digits, "", fractions, "more digits than a DOUBLE keeps")
    rounded = f"CASE WHEN length({_DIGITS.format('t')}) <= 17 THEN {_FINITE} END"
    remark = "a DOUBLE rounds the last of its digits"
    yield Reading("DOUBLE", _NUMBER, rounded, _cast("DOUBLE"), numbers, remark, is_guess=True)


_SECONDS = "CAST(CAST({} AS DECIMAL(20, 6)) AS TIMESTAMP)"
EPOCHS = (
    Reading(
        "TIMESTAMP", rf"{_WHOLE}(?:\.[0-9]{{1,6}})?",
        f"CASE WHEN try_cast(t AS DECIMAL(20, 6)) BETWEEN {_EPOCH[0]} AND {_EPOCH[1]}"
        " THEN CAST(try_cast(t AS DECIMAL(20, 6)) * 1000000 AS BIGINT) END",
        _SECONDS, remark="taken for seconds since 1970", is_guess=True,
    ),
    Reading(
        "TIMESTAMP", _WHOLE,
        f"CASE WHEN try_cast(t AS BIGINT) BETWEEN {_EPOCH[0]}000 AND {_EPOCH[1]}000 THEN try_cast(t AS BIGINT) END",
        "timestamp_millis(CAST({} AS BIGINT))", remark="taken for milliseconds since 1970", is_guess=True,
    ),
    Reading(
        "DATE", "(?:19|20)[0-9]{6}", "CAST(try_strptime(t, '%Y%m%d') AS DATE)", "to_date({}, 'yyyyMMdd')",
        remark="taken for year, month and day", is_guess=True,
    ),
)  # fmt: skip

ISO_TIMES = (
    Reading("DATE", _DAY, "try_cast(t AS DATE)", _cast("DATE")),
    Reading("TIMESTAMP", f"{_DAY}{_CLOCK}{_ZONE}", _INSTANT, _cast("TIMESTAMP")),
    Reading("TIMESTAMP", f"{_DAY}(?:{_CLOCK}{_ZONE}?)?", _INSTANT, _cast("TIMESTAMP"), remark="times are in UTC"),
)


TRUE_OR_FALSE = Reading("BOOLEAN", "(?i:true|false)", "lower(t)", _cast("BOOLEAN"))


def _answer(words: str) -> Reading:
    """Reading of two words that mean true and false where both occur; one of them alone may be a code or a name."""
    both = "count(DISTINCT lower(t)) > 1"
    return Reading("BOOLEAN", f"(?i:{words})", "lower(t)", _cast("BOOLEAN"), both, is_guess=True)


YES_OR_NO = _answer("yes|no")
ANSWERS = (YES_OR_NO, _answer("y|n"), _answer("t|f"))


def _number_without(form: str, unwritten: str, written: str, remark: str, evidence: str = "true") -> Reading:
    """Reading of numbers as people write them, by a regular expression for what silver takes away."""
    return Reading(
        "DOUBLE", form, _double(f"regexp_replace(t, '{unwritten}', '', 'g')"),
        f"CAST(regexp_replace({{}}, '{written}', '') AS DOUBLE)", evidence, remark, is_guess=True,
    )  # fmt: skip


_HAS_COMMA = "bool_or(contains(t, ','))"
_IS_BY_THREES = "bool_or(regexp_matches(t, ',.*[,.]'))"


def written_numbers(*, commas: bool) -> Iterator[Reading]:
    """Readings of numbers as people write them.

    Args:
        commas: whether a comma may stand for a decimal point.
    """
    if commas:
        threes, points = _IS_BY_THREES, ".,"
    else:
        threes, points = _HAS_COMMA, "."
    yield Reading(
        "BIGINT", f"-?{_BY_THREES}", "try_cast(replace(t, ',', '') AS BIGINT)",
        f"CAST(regexp_replace({{}}, '{_COMMAS_OF_THREES}', '') AS BIGINT)",
        threes, "a comma stands before each three digits", is_guess=True,
    )  # fmt: skip
    by_threes = rf"-?{_BY_THREES}(?:\.[0-9]+)?"
    yield _number_without(by_threes, ",", _COMMAS_OF_THREES, "a comma stands before each three digits", threes)
    for sign in "$€£":
        form = rf"-?[{sign}] ?(?:{_BY_THREES}|[1-9][0-9]*)(?:\.[0-9]+)?|{by_threes} ?[{sign}]"
        fractions = _is_no_thousand(f"regexp_replace(t, '[{sign} ]', '', 'g')", form, points)
        yield _number_without(form, f"[{sign}, ]", f" ?[{sign}] ?|{_COMMAS_OF_THREES}", f"in {sign}", fractions)
    percent = rf"{_WHOLE}(?:\.[0-9]+)? ?%"
    fractions = _is_no_thousand("rtrim(t, ' %')", percent, ".")
    yield _number_without(percent, " ?%", " ?%$", "in percent", fractions)
    if commas:
        yield Reading(
            "DOUBLE", f"{_WHOLE}(?:,[0-9]+)?", _double("replace(t, ',', '.')"),
            "CAST(replace({}, ',', '.') AS DOUBLE)",
            "bool_or(regexp_matches(t, ',([0-9]{1,2}|[0-9]{4,})$'))", "with a decimal comma", is_guess=True,
        )  # fmt: skip
        yield Reading(
            "DOUBLE", rf"(?:{_WHOLE}|-?[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}})+)(?:,[0-9]+)?",
            _double("replace(replace(t, '.', ''), ',', '.')"),
            f"CAST(replace(regexp_replace({{}}, '{_POINTS_OF_THREES}', ''), ',', '.') AS DOUBLE)",
            r"bool_or(regexp_matches(t, '\..*[,.]'))", "with a decimal comma", is_guess=True,
        )  # fmt: skip


_MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_MONTH_NAME = "(?i:january|february|march|april|may|june|july|august|september|october|november|december)"
# Parts of a date: Spark's letters, DuckDB's, and a regular expression.
_PARTS = {
    "d": ("%d", "[0-9]{1,2}"), "M": ("%m", "[0-9]{1,2}"), "yyyy": ("%Y", "[12][0-9]{3}"), "yy": ("%y", "[0-9]{2}"),
    "MMM": ("%b", _MONTH), "MMMM": ("%B", _MONTH_NAME),
    "H": ("%H", "(?:[01]?[0-9]|2[0-3])"), "h": ("%I", "(?:0?[1-9]|1[0-2])"),
    "mm": ("%M", "[0-5][0-9]"), "ss": ("%S", "[0-5][0-9]"), "a": ("%p", "(?i:am|pm)"),
}  # fmt: skip
_DAYS = (
    "M/d/{}", "d/M/{}", "d.M.{}", "M-d-{}", "d-M-{}", "d-MMM-{}", "d/MMM/{}", "d MMM {}", "d MMMM {}", "MMM d, {}",
    "MMMM d, {}", "MMM d {}", "MMMM d {}",
)  # fmt: skip
_CLOCKS = ("", " H:mm", " H:mm:ss", " h:mm a", " h:mm:ss a")


def written_times() -> Iterator[Reading]:
    """Readings of dates and times that are not written as a CAST reads them."""
    days = [day.format(year) for day, year in itertools.product(_DAYS, ("yyyy", "yy"))]
    years_first = ("yyyy/M/d", "yyyy.M.d", "yy-M-d", "yy/M/d", "yy.M.d")
    for day, clock in itertools.product([*days, *years_first], _CLOCKS):
        yield _time(day + clock, is_day=not clock)


def _time(letters: str, *, is_day: bool) -> Reading:
    parts = re.findall("[A-Za-z]+|[^A-Za-z]+", letters)
    duckdb_letters = "".join(_PARTS.get(part, (part, ""))[0] for part in parts)
    form = "".join(_PARTS.get(part, ("", re.escape(part).replace("\\ ", " ")))[1] for part in parts)
    value, remark = f"try_strptime(t, '{duckdb_letters}')", ""
    if "yy" in parts:
        # Spark takes each of them for one of this century; one that is still to come is none of it.
        value = f"CASE WHEN year({value}) BETWEEN 2000 AND {datetime.now(UTC).year + 1} THEN {value} END"
        remark = "years are from 2000 on"
    order = ""
    has_other_order = "yy" in parts or not letters.startswith(("d.M", "yyyy"))
    if "MMM" not in letters and has_other_order:
        order = "".join(sorted(letters))
    # A version such as 10.4.11 looks like a day.
    is_guess = "yy" in parts and "." in parts
    if is_day:
        value, pattern = f"CAST({value} AS DATE)", f"to_date({{}}, '{letters}')"
        return Reading("DATE", form, value, pattern, remark=remark, is_guess=is_guess, order=order)
    pattern, remark = f"to_timestamp({{}}, '{letters}')", remark or "times are in UTC"
    return Reading("TIMESTAMP", form, value, pattern, remark=remark, is_guess=is_guess, order=order)


WRITTEN_TIMES = tuple(written_times())
WRITTEN_NUMBERS = tuple(written_numbers(commas=True))
_PLAIN_NUMBERS = tuple(numbers_as_cast(commas=False, codes=False))
_WITH_ZEROS_IN_FRONT = Reading("STRING", "-?0[0-9]+(?:[.,][0-9]+)?", "t", "{}")
_FIGURES = (
    *_PLAIN_NUMBERS, _WITH_ZEROS_IN_FRONT, *ISO_TIMES, TRUE_OR_FALSE, YES_OR_NO, *WRITTEN_TIMES, *WRITTEN_NUMBERS,
)  # fmt: skip


def is_figure(text: str) -> bool:
    """Whether a text looks like a number, a time or a truth value, also as only people write them."""
    return any(reading.matches(text) for reading in _FIGURES)


def usual_kind(values: Sequence[object]) -> Kind | None:
    """Type that a look at the form of some values suggests; None without values."""
    texts = [value for value in values if isinstance(value, str) and value.strip() not in NOTHING]
    for reading in _FIGURES:
        if texts and all(reading.matches(text.strip()) for text in texts):
            return reading.kind
    return "STRING" if texts else None


def kind_of_number(text: str) -> Kind:
    """Type of a number of JSON: BIGINT or DOUBLE if that holds it, else text."""
    if re.fullmatch(_WHOLE, text):
        return "BIGINT" if abs(int(text)) < 2**63 else "STRING"
    if not re.fullmatch(_NUMBER, text):
        return "STRING"
    number = float(text)
    digits = [re.sub("[eE].*|[^0-9]", "", written).strip("0") for written in (text, repr(number), f"{number:.17g}")]
    if len(digits[0]) <= 15 or digits[0] in digits[1:]:
        return "DOUBLE"
    return "STRING"
