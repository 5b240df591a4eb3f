"""TPC-DI's wire of financial news: companies, securities and quarterly results as lines of fixed width."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from random import Random
from typing import Any

from bench.tpc.landing import Row
from bench.tpc.tpcdi_reference import FIRST_DAY, INDUSTRIES

RATINGS = ("AAA", "AA+", "A", "BBB", "BB", "B", "CCC")
QUARTERS = 8
"""Quarters of which there are results: from two years before the first day."""


@dataclass(frozen=True)
class Wire:
    """Lines of the wire.

    Attributes:
        seed: another one gives other values.
        companies: how many.
        securities: how many.
    """

    seed: int
    companies: int
    securities: int

    def first_landing(self) -> list[Row]:
        """Lines before the first day of trading, with some changes of companies later."""
        early = datetime.combine(FIRST_DAY, time()) - timedelta(days=30)
        lines = [self._company(key, early + timedelta(minutes=key), 0) for key in range(1, self.companies + 1)]
        lines += [
            self._security(key, early + timedelta(days=1, minutes=key), 0) for key in range(1, self.securities + 1)
        ]
        lines += [self._result(key, quarter, 0) for key in range(1, self.companies + 1) for quarter in range(QUARTERS)]
        later = early + timedelta(days=200)
        lines += [self._company(key, later + timedelta(minutes=key), 1) for key in range(3, self.companies + 1, 6)]
        lines += [
            self._security(key, later + timedelta(days=9, minutes=key), 1) for key in range(2, self.securities + 1, 9)
        ]
        return [{"value": line} for line in lines]

    def changes(self, landing: int) -> list[Row]:
        """A company and a security that change, and a result that is corrected."""
        moment = datetime.combine(FIRST_DAY, time()) + timedelta(days=400 + landing, minutes=1)
        company, security = landing % self.companies + 1, landing * 3 % self.securities + 1
        lines = [self._company(company, moment, 1 + landing), self._security(security, moment, 1 + landing),
                 self._result(company, landing % QUARTERS, landing)]  # fmt: skip
        return [{"value": line} for line in lines]

    def _company(self, key: int, moment: datetime, change: int) -> str:
        random = Random(f"{self.seed} company {key} {change}")
        industry = INDUSTRIES[key % len(INDUSTRIES)][:2].upper()
        return _line(moment, "CMP", (_company_name(key), 60), (f"{key:010}", 10), ("ACTV" if change < 3 else "INAC", 4),
                     (industry, 2), (RATINGS[(key + change) % len(RATINGS)], 4), (f"19{50 + key % 50}0101", 8),
                     (f"{random.randint(1, 99)} Market Square", 80), (f"{random.randint(10000, 99999)}", 12),
                     (random.choice(("Boston", "Denver", "Omaha")), 25), ("MA", 20), ("USA", 24),
                     (f"Chief {random.randint(1, 999)}", 46), (f"Company number {key}", 150))  # fmt: skip

    def _security(self, key: int, moment: datetime, change: int) -> str:
        random = Random(f"{self.seed} security {key} {change}")
        company = (key - 1) % self.companies + 1
        return _line(moment, "SEC", (f"SYM{key:05}", 15), ("COMMON" if key % 4 else "PREF_A", 6), ("ACTV", 4),
                     (f"Security {key} of {company}", 70), (("NYSE", "NASDAQ", "AMEX")[key % 3], 6),
                     (str(random.randint(10**6, 10**9)), 13), (f"19{60 + key % 40}0201", 8),
                     (f"19{60 + key % 40}0301", 8),
                     (f"{random.randint(1, 400) / 100:.2f}", 12), (_reference(key, company), 60))  # fmt: skip

    def _result(self, company: int, quarter: int, change: int) -> str:
        random = Random(f"{self.seed} result {company} {quarter} {change}")
        year, number = FIRST_DAY.year - 1 + quarter // 4, quarter % 4 + 1
        begin = datetime(year, number * 3 - 2, 1)
        posted = begin + timedelta(days=20, minutes=company) + timedelta(days=300 * change)
        money = [str(random.randint(10**6, 10**10)) for _ in range(5)]
        return _line(max(posted, datetime.combine(FIRST_DAY, time()) - timedelta(days=20)), "FIN", (str(year), 4),
                     (str(number), 1), (f"{begin:%Y%m%d}", 8), (f"{posted:%Y%m%d}", 8), (money[0], 17), (money[1], 17),
                     (f"{random.randint(5, 300) / 100:.2f}", 12), (f"{random.randint(5, 250) / 100:.2f}", 12),
                     (f"{random.randint(1, 40) / 100:.2f}", 12), (money[2], 17), (money[3], 17), (money[4], 17),
                     (str(random.randint(10**6, 10**8)), 13), (str(random.randint(10**6, 10**8)), 13),
                     (_reference(quarter, company), 60))  # fmt: skip


def _company_name(key: int) -> str:
    return f"Company {key:06} Inc."


def _reference(number: int, company: int) -> str:
    """A company by its number or, one time in three, by its name."""
    return _company_name(company) if number % 3 == 0 else f"{company:010}"


def _line(moment: datetime, kind: str, *fields: Any) -> str:
    return f"{moment:%Y%m%d-%H%M%S}{kind}" + "".join(f"{text:<{width}}" for text, width in fields)
