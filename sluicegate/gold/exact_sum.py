"""Exact sums, whatever the order of their terms, from which a term can be subtracted again.

A term is cut into *limbs*: integers, each with its place. Adding the limbs of a place is integer addition, so a group's
sum is a map from places to numbers, and a deleted row's limbs can be subtracted. A double is three limbs of 32 bits, in
places of 2^32 from the least double to the greatest; a decimal is five limbs of nine digits; an integer is two of 32
bits. A sum of doubles is rounded once, to the nearest double, as Python's ``math.fsum`` does (Shewchuk, "Adaptive
Precision Floating-Point Arithmetic", 1997, has the same aim).

This module builds SQL text: an aggregation puts the limbs of its terms into one map for each group, and reads a sum
from it. Limbs are cut in plain columns, since that runs for each row; maps are read with lambdas, which are slow, once
for each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Literal

from pyspark.sql import DataFrame

Kind = Literal["double", "decimal", "whole"]

PLACES = 1000
"""Places that each aggregate function has in a map."""

COUNT = 0
"""Place of the number of terms."""

_NAN, _INFINITE, _MINUS_INFINITE = 1, 2, 3
_WHOLE, _DECIMAL, _DOUBLE = 10, 20, 500

# The square of a double is two doubles, of a scaled term where these would have no full precision: distances to the
# places of the first, of the second, and of those of terms that were divided by 2^_SCALE.
_SQUARE, _REST, _SCALED, _SCALE = 1_000_000, 2_000_000, 10_000_000, 600

FUNCTIONS = _SQUARE // PLACES
"""Upper bound of aggregate function numbers: from there on the places are those of squares."""

# A decimal has up to 38 digits; so many places of nine hold them.
_NINES = 5
# A sum of 2^31 terms has up to three places more than its terms, and a quotient is exact to three places below.
_ABOVE, _BELOW = 3, 3
# Doubles have places -34 (2^-1088) to 31 (2^992), and limbs down to two places below.
_LEAST, _MOST = -36, 31


def entry(number: int, place: int | str, value: str) -> str:
    """Return the SQL struct of a place of aggregate function ``number`` and the value to add there."""
    return f"struct({number * PLACES} + {place} AS place, CAST({value} AS BIGINT) AS value)"


def add_limbs(rows: DataFrame, number: int, term: str, kind: Kind) -> tuple[DataFrame, list[tuple[str, str]]]:
    """Cut the term of each row into limbs.

    Args:
        rows: the rows.
        number: number of the aggregate function.
        term: the column with the term; NULL has limbs of 0.
        kind: kind of number.

    Returns:
        the rows with helper columns, and SQL of each limb's place and value.
    """
    if kind == "whole":
        low, high = f"CAST({term} AS BIGINT) & 4294967295", f"shiftright(CAST({term} AS BIGINT), 32)"
        return rows, [(str(_WHOLE), low), (str(_WHOLE + 1), high)]
    if kind == "decimal":
        digits = f"_digits_{number}"
        # By its text: Spark's abs() of a decimal, and its minus, keep 34 digits only. Without ANSI mode the text of a
        # small one is 1.5E-10: what stands before the E are its digits all the same.
        text = f"lpad(translate(substring_index(CAST({term} AS STRING), 'E', 1), '-.', ''), {9 * _NINES}, '0')"
        sign = f"CASE WHEN {term} < 0 THEN -1 ELSE 1 END"
        nines = [f"CAST(substr({digits}, {9 * i + 1}, 9) AS BIGINT) * {sign}" for i in range(_NINES)]
        place_column = [str(_DECIMAL + _NINES - 1 - i) for i in range(_NINES)]
        return rows.selectExpr("*", f"{text} AS {digits}"), list(zip(place_column, nines, strict=True))
    return _add_double_limbs(rows, number, term)


def _add_double_limbs(rows: DataFrame, number: int, term: str) -> tuple[DataFrame, list[tuple[str, str]]]:
    """Cut doubles into three limbs: the place by the logarithm, each limb from the rest of the one before.

    Each step is a column of its own: all of them are exact, as only powers of two and whole parts are in them.
    """
    n, word = number, _power(32)
    # Powers of two below 2^-1022 have no full precision: there the term is made greater first.
    finite = f"abs({term}) < DOUBLE('inf')"
    far = f"CASE WHEN {finite} AND abs({term}) < 1e-200D THEN 19 ELSE 0 END"
    near = f"CASE WHEN {finite} THEN {term} * CASE WHEN _far_{n} = 19 THEN {_power(608)} ELSE 1D END ELSE 0D END"
    place_column = f"CASE WHEN _near_{n} = 0 THEN 0 ELSE CAST(floor(log2(abs(_near_{n})) / 32) AS INT) END"
    for step in (
        f"{far} AS _far_{n}",
        f"{near} AS _near_{n}",
        f"least({place_column}, {_MOST}) AS _at_{n}",  # 2^1024 is no double
        f"_near_{n} / pow(2D, _at_{n} * 32) AS _high_{n}",
        f"(_high_{n} - CAST(_high_{n} AS BIGINT)) * {word} AS _middle_{n}",
        f"(_middle_{n} - CAST(_middle_{n} AS BIGINT)) * {word} AS _low_{n}",
    ):
        rows = rows.selectExpr("*", step)
    odd = f"CASE WHEN isnan({term}) THEN {_NAN} WHEN {term} > 0 THEN {_INFINITE} ELSE {_MINUS_INFINITE} END"
    limbs = [
        (f"{_DOUBLE} + _at_{n} - _far_{n} - {i}", f"CAST(_{part}_{n} AS BIGINT)")
        for i, part in enumerate(["high", "middle", "low"])
    ]
    return rows, [*limbs, (odd, f"CASE WHEN {finite} OR {term} IS NULL THEN 0 ELSE 1 END")]


def add_square_limbs(rows: DataFrame, number: int, term: str) -> tuple[DataFrame, list[tuple[str, str]]]:
    """Cut the square of each row's double into limbs; arguments and result as of ``add_limbs``.

    The square is the sum of two doubles, the rounded one and what that lost, without an error (Dekker, "A
    Floating-Point Technique for Extending the Available Precision", 1971).
    """
    n, size = number, f"abs({term})"
    for step in (
        f"CASE WHEN {size} >= {_power(500)} THEN 1 WHEN {size} < {_power(-450)} THEN -1 ELSE 0 END AS _size_{n}",
        f"{term} * CASE _size_{n} WHEN 1 THEN {_power(-_SCALE)} WHEN -1 THEN {_power(_SCALE)} ELSE 1D END AS _side_{n}",
        f"_side_{n} * {_power(27)} + _side_{n} AS _wide_{n}",
        f"_wide_{n} - (_wide_{n} - _side_{n}) AS _upper_{n}",
        f"_side_{n} - _upper_{n} AS _lower_{n}",
        f"_side_{n} * _side_{n} AS _square_{n}",
        f"(_upper_{n} * _upper_{n} - _square_{n}) + 2D * _upper_{n} * _lower_{n} AS _lost_{n}",
        f"_lost_{n} + _lower_{n} * _lower_{n} AS _rest_{n}",
    ):
        rows = rows.selectExpr("*", step)
    all_limbs: list[tuple[str, str]] = []
    for part, base in (("square", _SQUARE), ("rest", _REST)):
        rows, limbs = _add_double_limbs(rows, base // PLACES + n, f"_{part}_{n}")
        all_limbs += [(f"{base} + {_SCALED} * _size_{n} + {place}", value) for place, value in limbs]
    return rows, all_limbs


def variance(sums: Mapping[int, int] | None, number: int, function: str) -> float | None:
    """Compute variance or standard deviation from exact sums of terms and squares, rounded once (or twice).

    Args:
        sums: the map.
        number: number of the aggregate function.
        function: plain name of the function.
    """
    sums, base = sums or {}, number * PLACES
    count = sums.get(base + COUNT, 0)
    fixed = 1
    if function.endswith("pop"):
        fixed = 0
    if count <= fixed:
        return None
    if any(sums.get(base + odd, 0) for odd in (_NAN, _INFINITE, _MINUS_INFINITE)):
        return math.nan
    total, squares = _whole_sum(sums, base), Fraction(0)
    for scaled in (-1, 0, 1):
        parts = (_whole_sum(sums, base + part + scaled * _SCALED) for part in (_SQUARE, _REST))
        squares += sum(parts, Fraction(0)) * Fraction(4) ** (_SCALE * scaled)
    try:
        result = float((count * squares - total * total) / (count * (count - fixed)))
    except OverflowError:
        result = math.inf
    if function.startswith("stddev"):
        return math.sqrt(result)
    return result


def _whole_sum(sums: Mapping[int, int], base: int) -> Fraction:
    """Return the sum of doubles as a fraction, without rounding."""
    first = base + _DOUBLE
    limbs = (sums.get(first + place, 0) << 32 * (place - _LEAST) for place in range(_LEAST, _MOST + 1))
    return Fraction(sum(limbs), 1 << -32 * _LEAST)


def _power(bits: int) -> str:
    return f"{2.0**bits!r}D"


@dataclass(frozen=True)
class Sum:
    """Sum in a map of limbs.

    Attributes:
        map: SQL of the map.
        number: number of the aggregate function.
        kind: kind of the terms.
        scale: decimal digits of the terms, for decimals.
    """

    map: str
    number: int
    kind: Kind
    scale: int = 0

    def value_at(self, place: int | str) -> str:
        """Return the SQL of the value at a place."""
        return f"coalesce(try_element_at({self.map}, {self.number * PLACES} + {place}), 0L)"

    @property
    def count(self) -> str:
        """Number of terms."""
        return self.value_at(COUNT)

    def total(self, result: str) -> str:
        """Return the sum as the SQL type ``result``; NULL without terms."""
        total = {"double": self._double_sum, "decimal": self._decimal_sum, "whole": self._integer_sum}[self.kind]()
        return f"CASE WHEN {self.count} <> 0 THEN CAST({total} AS {result}) END"

    def mean(self, result: str, scale: int = 0) -> str:
        """Return the sum divided by the number of terms, rounded once; NULL without terms.

        Args:
            result: result type, for doubles or decimals.
            scale: decimal digits of the result, for decimals.
        """
        if self.kind == "double":
            quotient = self._double_sum(divided=True)
        else:
            quotient = self._decimal_mean(scale)
        return f"CASE WHEN {self.count} <> 0 THEN CAST({quotient} AS {result}) END"

    # --- whole numbers and decimals ----------------------------------------------------------------------------------

    def _integer_sum(self) -> str:
        return f"CAST({self.value_at(_WHOLE + 1)} AS DECIMAL(20, 0)) * 4294967296 + {self.value_at(_WHOLE)}"

    def _decimal_sum(self) -> str:
        return self._decimal_text(lambda digits: _as_text(digits, self.scale))

    def _decimal_mean(self, scale: int) -> str:
        """Return the mean rounded half up, as Spark divides decimals."""

        def rounded_text(digits: str) -> str:
            more = f"transform({digits}, v -> v * {10 ** (scale - self.scale)}L)"
            return _bind(
                _quotient(_carry_nines(more), self.count, 10**9),
                lambda q: _as_text(_carry_nines(_plus_one(f"reverse({q}.q)", f"2 * {q}.r >= {self.count}")), scale),
            )

        return self._decimal_text(rounded_text)

    def _decimal_text(self, text: Callable[[str], str]) -> str:
        places = ", ".join(self.value_at(_DECIMAL + i) for i in range(_NINES))
        raw = f"array({places}, {', '.join(['0L'] * _ABOVE)})"
        return _bind(raw, lambda name: _apply_sign(name, _carry_nines, text, "concat('-', {})"))

    # --- doubles -----------------------------------------------------------------------------------------------------

    def _double_sum(self, *, divided: bool = False) -> str:
        nan, infinite, minus = self.value_at(_NAN), self.value_at(_INFINITE), self.value_at(_MINUS_INFINITE)
        return (
            f"CASE WHEN {nan} > 0 OR ({infinite} > 0 AND {minus} > 0) THEN DOUBLE('NaN') "
            f"WHEN {infinite} > 0 THEN DOUBLE('inf') WHEN {minus} > 0 THEN DOUBLE('-inf') "
            f"ELSE {self._finite_sum(divided)} END"
        )

    def _finite_sum(self, divided: bool) -> str:
        first, last = self.number * PLACES + _DOUBLE + _LEAST, self.number * PLACES + _DOUBLE + _MOST
        used = f"filter(map_keys({self.map}), k -> k BETWEEN {first} AND {last})"

        def sum_places(keys: str) -> str:
            lowest = f"(array_min({keys}) - {_BELOW})"
            places = f"sequence({lowest}, array_max({keys}) + {_ABOVE})"
            raw = f"transform({places}, k -> coalesce(try_element_at({self.map}, k), 0L))"
            base = f"({lowest} - {self.number * PLACES + _DOUBLE})"

            def value(digits: str) -> str:
                if not divided:
                    return _nearest_double(f"struct(reverse({digits}) AS q, 0L AS r)", base)
                return _nearest_double(_quotient(digits, self.count, 2**32), base)

            number = _bind(raw, lambda name: _apply_sign(name, _carry_words, value, "-{}"))
            return f"CASE WHEN size({keys}) = 0 THEN 0D ELSE {number} END"

        return _bind(used, sum_places)


def _bind(value: str, use: Callable[[str], str]) -> str:
    """Return the SQL that binds a value to a name for ``use``, so that it is computed once."""
    name = f"n{next(_NAMES)}"
    return f"transform(array({value}), {name} -> {use(name)})[0]"


_NAMES = count()


def _carry_words(digits: str) -> str:
    """Return digits of base 2^32, lowest first, of limbs with any sign or size, after carrying."""
    return _carry(digits, "(a.c + v) & 4294967295", "shiftright(a.c + v, 32)")


def _carry_nines(digits: str) -> str:
    return _carry(digits, "pmod(a.c + v, 1000000000L)", "((a.c + v) - pmod(a.c + v, 1000000000L)) DIV 1000000000L")


def _carry(digits: str, digit: str, carry: str) -> str:
    start = "struct(CAST(array() AS ARRAY<BIGINT>) AS d, 0L AS c)"
    return f"aggregate({digits}, {start}, (a, v) -> struct(concat(a.d, array({digit})) AS d, {carry} AS c), a -> a.d)"


def _apply_sign(raw: str, digits: Callable[[str], str], use: Callable[[str], str], minus: str) -> str:
    """Apply ``use`` to the digits without sign, then ``minus`` if the highest digit is negative."""
    turned = digits(f"transform({raw}, v -> -v)")

    def choose_sign(plain: str) -> str:
        # A number below zero borrows from the highest digit, which is zero otherwise.
        below = f"element_at({plain}, -1) <> 0"
        size = f"CASE WHEN {below} THEN {turned} ELSE {plain} END"
        return _bind(_bind(size, use), lambda value: f"CASE WHEN {below} THEN {minus.format(value)} ELSE {value} END")

    return _bind(digits(raw), choose_sign)


def _quotient(digits: str, divisor: str, base: int) -> str:
    """Divide digits (lowest first) by long division: quotient ``q``, highest first, and remainder ``r``.

    The divisor is below 2^31, as the number of rows of a group is: what is left times the base is a BIGINT.
    """
    start = "struct(CAST(array() AS ARRAY<BIGINT>) AS q, 0L AS r)"
    dividend = f"(a.r * {base}L + v)"
    step = f"struct(concat(a.q, array({dividend} DIV {divisor})) AS q, {dividend} % {divisor} AS r)"
    return f"aggregate(reverse({digits}), {start}, (a, v) -> {step})"


def _plus_one(digits: str, condition: str) -> str:
    return f"transform({digits}, (v, i) -> CASE WHEN i = 0 AND {condition} THEN v + 1 ELSE v END)"


def _as_text(digits: str, scale: int) -> str:
    """Return the SQL of a decimal's text from digits of base 10^9, lowest first."""
    text = f"array_join(transform(reverse({digits}), v -> lpad(CAST(v AS STRING), 9, '0')), '')"
    return _bind(text, lambda t: f"concat(left({t}, length({t}) - {scale}), '.', right({t}, {scale}))")


def _nearest_double(quotient: str, base: str) -> str:
    """Return the double nearest to digits ``q`` of base 2^32, highest first, and remainder ``r``; ties to even.

    The first three significant digits have at least 65 bits. Whether anything follows them is one more bit: rounding to
    53 bits needs no more. Spark converts a DECIMAL to the nearest double.

    Args:
        quotient: SQL of the quotient's struct.
        base: place of the last digit.
    """

    def round_quotient(q: str) -> str:
        first = f"array_position(transform({q}.q, v -> v <> 0), true)"

        def round_digits(t: str) -> str:
            def digit(i: int) -> str:
                return f"CAST(element_at({q}.q, CAST({t} AS INT) + {i}) AS DECIMAL(20, 0))"

            remaining = f"size({q}.q) - CAST({t} AS INT) - 2"
            behind = f"{q}.r <> 0 OR exists(slice({q}.q, -greatest({remaining}, 1), {remaining}), v -> v <> 0)"
            many = (
                f"((({digit(0)} * 4294967296 + {digit(1)}) * 4294967296 + {digit(2)}) * 2 "
                f"+ CASE WHEN {behind} THEN 1 ELSE 0 END)"
            )
            bits = f"(({base} + {remaining}) * 32 - 1)"
            half = f"CAST({bits} DIV 2 AS INT)"
            scale = f"pow(2D, {half}) * pow(2D, {bits} - {half})"  # a power of its own may be too great or too small
            return f"CASE WHEN {t} = 0 THEN 0D ELSE CAST({many} AS DOUBLE) * {scale} END"

        return _bind(first, round_digits)

    return _bind(quotient, round_quotient)
