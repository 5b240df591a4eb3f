"""Compare binary with decimal numbers exactly; Spark compares by the shortest text of the binary one."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

# A remainder of a DOUBLE is exact. Two numbers whose remainders by both agree differ by a multiple of some 10^30, and
# neighbours of the largest decimal by less than that.
_MODULI = (10**15, 999_999_999_999_989)

# Binary places that are looked at; a number with more has more than so many decimal places, too.
_PLACES = 26


def same_number(binary: Expression, decimal: Expression) -> Expression:
    """Return the condition that a DOUBLE is exactly the DECIMAL that was cast to it.

    Args:
        binary: the nearest DOUBLE, or FLOAT, of the decimal.
        decimal: the DECIMAL; more than 26 decimal places other than zero count as different.
    """
    number = binary.cast("double")
    scaled = number * F.lit(2.0**_PLACES)
    # NULL of a number near the end of the type, which scaling makes infinite: the cast of a NaN would raise.
    fraction = F.nanvl(scaled % F.lit(2.0**_PLACES), F.lit(None).cast("double"))
    step = F.lit(Decimal(1) / 2**_PLACES)
    same = [
        fraction == fraction.cast("bigint").cast("double"),
        (decimal % F.lit(Decimal(1))) == fraction.cast("bigint").cast("decimal(8,0)") * step,
    ]
    for modulus in _MODULI:
        same.append(
            (number % F.lit(float(modulus))).cast("bigint") == (decimal % F.lit(Decimal(modulus))).cast("bigint")
        )
    return F.coalesce(reduce(lambda a, b: a & b, same), F.lit(False))
