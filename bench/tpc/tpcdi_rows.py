"""Rows of TPC-DI's sources: a broker's customers, accounts, trades and markets, and changes of them, by scale and seed.

Scale 1 has 5,000 customers. The sources are those of the specification, in forms of their own: customers and accounts
are records of what was done (nested JSON), trades and cash have a flag for what becomes of a row, companies and
securities are lines of fixed width, prospects are a file of all of them each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from bench.tpc.landing import CENTS, Form, Row, Rows, cents
from bench.tpc.tpcdi_reference import FIRST_DAY, reference
from bench.tpc.tpcdi_wire import Wire

FORMS = {
    "customer_mgmt": Form("json"), "trade": Form("csv", "|"), "trade_history": Form("csv", "|"),
    "holding_history": Form("csv", "|"), "cash_transaction": Form("csv", "|"), "watch_history": Form("csv", "|"),
    "daily_market": Form("parquet", schema=pa.schema([
        ("dm_date", pa.date32()), ("dm_s_symb", pa.string()), ("dm_close", CENTS), ("dm_high", CENTS),
        ("dm_low", CENTS), ("dm_vol", pa.int64()), ("dm_seq", pa.int32()),
    ])),
    "finwire": Form("txt"), "prospect": Form("csv"), "hr": Form("csv"), "date": Form("csv", "|"),
    "time": Form("csv", "|"), "industry": Form("csv", "|"), "status_type": Form("csv", "|"),
    "trade_type": Form("csv", "|"), "tax_rate": Form("csv", "|"),
}  # fmt: skip

FIRST_NAMES = ("Ada", "Ben", "Chloe", "Dario", "Edna", "Femi", "Gita", "Hugo", "Ines", "Jan", "Kaya", "Luis")
LAST_NAMES = ("Abel", "Brandt", "Costa", "Diaz", "Evans", "Fischer", "Gupta", "Haddad", "Ito", "Jensen", "Kim", "Lopez")
CITIES = ("Aurora", "Bristol", "Camden", "Dayton", "Elgin", "Fresno")
STREETS = ("Oak", "Elm", "Pine", "Lake", "Hill", "Main")
EMPLOYERS = ("Bakery", "Clinic", "Foundry", "Museum", "School")
DAYS = 400
"""Days of history, so that a window of 52 weeks has rows that it leaves out."""

LANDINGS = 16
"""Landings of changes that there can be: each changes rows of its own."""


@dataclass(frozen=True)
class TpcDi:
    """Rows of one scale and seed.

    Attributes:
        scale: 1 for 5,000 customers.
        seed: another one gives other values.
    """

    scale: float
    seed: int = 1

    def first_landing(self) -> Rows:
        """All rows of the first landing."""
        wire = Wire(self.seed, self.companies, self.securities)
        trades = [self._trade(number, 0, "I") for number in range(1, self.trades + 1)]
        return {
            **reference(),
            "hr": [self._employee(key, 0) for key in range(1, self.employees + 1)],
            "finwire": wire.first_landing(),
            "customer_mgmt": self._management(),
            "prospect": self._prospects(0),
            **_trade_tables(trades),
            "cash_transaction": [self._cash(key, 0, "I") for key in range(1, self.cash + 1)],
            "watch_history": [row for key in range(1, self.watches + 1) for row in self._watch(key, 0)],
            "daily_market": [self._market(security, day, 0) for day in self._days() for security in self._symbols()],
        }

    def changes(self, landing: int) -> Rows:
        """What changes in a landing after the first: a thousandth of the rows of each source, and all prospects."""
        if not 1 <= landing <= LANDINGS:
            raise ValueError(f"landings of changes are 1 to {LANDINGS}")
        random = Random(f"{self.seed} changes {landing}")
        come, change, go = self._thirds("trade", self.trades, landing)
        trades = [self._trade(number, landing, op) for numbers, op in ((come, "I"), (change, "U"), (go, "D"))
                  for number in numbers]  # fmt: skip
        cash_come, cash_change, cash_go = self._thirds("cash", self.cash, landing)
        days, symbols = self._days(), list(self._symbols())
        market = max(len(days) * len(symbols) // 1000, 2)
        return {
            "hr": [self._employee(random.randint(1, self.employees), landing)],
            "finwire": Wire(self.seed, self.companies, self.securities).changes(landing),
            "customer_mgmt": self._customer_changes(landing),
            "prospect": self._prospects(landing),
            **_trade_tables(trades),
            "cash_transaction": [self._cash(key, landing, op) for keys, op in
                                 ((cash_come, "I"), (cash_change, "U"), (cash_go, "D")) for key in keys],
            "watch_history": [row for key in range(1, max(self.watches // 1000, 1) + 1)
                              for row in self._watch(self.watches + landing * 1000 + key, landing)],
            # Half of them of another day, half corrections of days that were there.
            "daily_market": [
                *(self._market(one, days[-1] + timedelta(days=landing), landing) for one in symbols[: market // 2]),
                *(self._market(random.choice(symbols), day, landing)
                  for day in random.sample(days, market - market // 2)),
            ],
        }  # fmt: skip

    # --- how many ----------------------------------------------------------------------------------------------------

    def _scaled_count(self, rows: int, least: int) -> int:
        return max(round(rows * self.scale), least)

    @property
    def customers(self) -> int:
        """Customers at first."""
        return self._scaled_count(5_000, 100)

    @property
    def portfolios(self) -> int:
        """Accounts at first: a customer has one or two."""
        return self.customers * 3 // 2

    @property
    def employees(self) -> int:
        """Employees, a third of whom are brokers."""
        return self._scaled_count(500, 60)

    @property
    def companies(self) -> int:
        """Companies."""
        return self._scaled_count(500, 24)

    @property
    def securities(self) -> int:
        """Securities: some companies have two."""
        return self.companies * 5 // 4

    @property
    def trades(self) -> int:
        """Trades at first."""
        return self._scaled_count(130_000, 2_000)

    @property
    def cash(self) -> int:
        """Cash transactions at first."""
        return self._scaled_count(120_000, 1_500)

    @property
    def watches(self) -> int:
        """Securities that customers began to watch."""
        return self._scaled_count(100_000, 1_000)

    def _thirds(self, name: str, count: int, landing: int) -> tuple[list[int], list[int], list[int]]:
        """Keys of rows that come, change and go: together a thousandth of a table."""
        third = max(count // 3000, 1)
        some = Random(f"{self.seed} {name} {landing}").sample(range(landing, count + 1, LANDINGS), 2 * third)
        return [count + (landing - 1) * third + n + 1 for n in range(third)], some[:third], some[third:]

    def _days(self) -> list[date]:
        return [day for n in range(DAYS) if (day := FIRST_DAY + timedelta(days=n)).weekday() < 5]

    def _symbols(self) -> Iterator[int]:
        return iter(range(1, self.securities + 1))

    def _random(self, name: str, key: Any, landing: int) -> Random:
        return Random(f"{self.seed} {name} {key} {landing}")

    def _moment(self, random: Random, landing: int) -> datetime:
        """A minute of the history, or of the day of a landing."""
        day = random.randint(60, DAYS - 1) if landing == 0 else DAYS + landing
        return datetime.combine(FIRST_DAY, time()) + timedelta(days=day, minutes=random.randint(0, 1439))

    # --- customers and their accounts --------------------------------------------------------------------------------

    def _management(self) -> list[Row]:
        """What was done with customers: all are new in the first weeks, and some changed, or went, later."""
        rows: list[Row] = []
        start = datetime.combine(FIRST_DAY, time())
        for key in range(1, self.customers + 1):
            random = self._random("customer", key, 0)
            began = start + timedelta(days=random.randint(0, 20), minutes=random.randint(0, 1439))
            rows.append(self._customer(key, "NEW", began, random) | self._portfolio(key, key, random))
            if key % 2 == 0:
                second = self.customers + key // 2
                moment = began + timedelta(days=random.randint(1, 20))
                rows.append(_customer_action("ADDACCT", moment, key) | self._portfolio(second, key, random))
            later = began + timedelta(days=random.randint(40, 300))
            if key % 5 == 0:
                rows.append(self._address_change(key, later, random))
            if key % 7 == 0:
                rows.append(
                    _customer_action("UPDACCT", later + timedelta(days=3), key) | self._portfolio(key, key, random)
                )
            if key % 23 == 0:
                rows.append(_customer_action("INACT", later + timedelta(days=9), key))
            if key % 29 == 0:
                rows.append(_customer_action("CLOSEACCT", later + timedelta(days=5), key) | {"ca_id": key})
        return sorted(rows, key=lambda row: (row["action_ts"], row["c_id"]))

    def _customer_changes(self, landing: int) -> list[Row]:
        """A thousandth of it more: a customer who is new, and for each who is, one who moves and an account."""
        rows: list[Row] = []
        many = max(self.customers // 3000, 1)
        for n in range(many):
            key = self.customers * 10 + landing * 1000 + n
            random = self._random("customer", key, landing)
            moment = self._moment(random, landing)
            rows.append(self._customer(key, "NEW", moment, random) | self._portfolio(key, key, random))
            some = random.randint(1, self.customers)
            rows.append(self._address_change(some, moment + timedelta(minutes=n + 1), random))
            owner = random.randint(1, self.customers)
            rows.append(
                _customer_action("UPDACCT", moment + timedelta(minutes=n + 1), owner)
                | self._portfolio(owner, owner, random)
            )
        rows.append(
            _customer_action(
                "INACT", self._moment(self._random("gone", 0, landing), landing), 11 * landing % self.customers + 1
            )
        )
        return rows

    def _customer(self, key: int, action: str, moment: datetime, random: Random) -> dict[str, Any]:
        born = date(1940, 1, 1) + timedelta(days=random.randint(0, 22_000))
        return _customer_action(action, moment, key) | {
            "c_tax_id": f"{key:09}", "c_gndr": random.choice("MFmfx"), "c_tier": random.randint(1, 3),
            "c_dob": born, "name": _name(key), "address": _address(key),
            "email": f"c{key}@example.org", "phone": f"1-555-{random.randint(1000, 9999)}",
            "c_lcl_tx": f"LC{random.randint(1, 5)}", "c_nat_tx": f"NA{random.randint(1, 4)}",
        }  # fmt: skip

    def _address_change(self, key: int, moment: datetime, random: Random) -> Row:
        """A change of some fields: what it does not say stays as it was."""
        return _customer_action("UPDCUST", moment, key) | {
            "address": {"line": f"{random.randint(1000, 9999)} New Road", "zip": f"{random.randint(10000, 99999)}",
                        "city": random.choice(CITIES), "state": "NV", "country": "USA"},
            "c_tier": random.randint(1, 3),
        }  # fmt: skip

    def _portfolio(self, key: int, customer: int, random: Random) -> dict[str, Any]:
        return {"ca_id": key, "ca_b_id": random.randint(1, self.employees), "ca_tax_st": random.randint(0, 2),
                "ca_name": f"Account {random.randint(10_000, 99_999)} of {customer}"}  # fmt: skip

    def _prospects(self, landing: int) -> list[Row]:
        """All prospects: a third are customers who have not moved. With each landing one goes, and one comes."""
        return [self._prospect(n, landing) for n in range(landing + 1, self.customers * 3 + landing + 1)]

    def _prospect(self, number: int, landing: int) -> Row:
        last = max((n for n in range(1, landing + 1) if (number + n * 401) % 1000 == 0), default=0)
        random = self._random("prospect", number, last)
        customer = number // 3 if number % 3 == 0 else 1_000_000 + number
        name, address = _name(customer), _address(customer)
        return {"snapshot": FIRST_DAY + timedelta(days=DAYS + landing), "agency_id": f"AG{number:07}", **name,
                "gender": random.choice("MFU"), "line": address["line"], "zip": address["zip"], "city": address["city"],
                "state": address["state"], "country": address["country"], "income": random.randint(15, 400) * 1000,
                "cars": random.randint(0, 4), "children": random.randint(0, 5), "marital": random.choice("SMDWU"),
                "age": random.randint(18, 90), "credit_rating": random.randint(300, 850),
                "home": random.choice("ORU"), "employer": random.choice(EMPLOYERS), "cards": random.randint(0, 9),
                "net_worth": random.randint(-20, 2000) * 1000}  # fmt: skip

    def _employee(self, key: int, landing: int) -> Row:
        random = self._random("employee", key, landing)
        return {"employee_id": key, "manager_id": random.randint(1, self.employees), **_name(5_000_000 + key),
                "job_code": 314 if key % 3 or landing else 500 + key % 7, "branch": f"Branch {random.randint(1, 20)}",
                "office": f"OFF{random.randint(100, 999)}", "phone": f"1-777-{random.randint(1000, 9999)}",
                "hr_seq": landing}  # fmt: skip

    # --- trades, cash, watches, markets ------------------------------------------------------------------------------

    def _trade(self, number: int, landing: int, op: str) -> dict[str, Any]:
        """A trade with its history and what it did to holdings. One that changes was open, and is completed."""
        first = self._random("trade", number, 0 if op != "I" else landing)
        moment = self._moment(first, 0 if op != "I" else landing)
        limit, cancelled = first.random() < 0.4, first.random() < 0.1
        kind = first.choice(("TLB", "TLS") if limit else ("TMB", "TMS"))
        state = "CNCL" if cancelled else "SBMT" if number % 11 == 0 and op == "I" else "CMPT"
        portfolio, symbol = first.randint(1, self.portfolios), first.randint(1, self.securities)
        quantity, price = first.randint(1, 80) * 10, first.randint(500, 20_000)
        random = self._random("change of trade", number, landing)
        steps = [("PNDG" if limit else "SBMT", moment)]
        if limit and state != "SBMT":
            steps.append(("SBMT", moment + timedelta(minutes=first.randint(1, 60))))
        if state != "SBMT":
            steps.append((state, steps[-1][1] + timedelta(minutes=first.randint(1, 60))))
        row = {"t_op": op, "t_seq": landing, "t_id": number, "t_dts": steps[-1][1], "t_st_id": state, "t_tt_id": kind,
               "t_is_cash": first.randint(0, 1), "t_s_symb": _symbol(symbol), "t_qty": quantity,
               "t_bid_price": cents(price), "t_ca_id": portfolio, "t_exec_name": f"Trader {first.randint(1, 40)}",
               "t_trade_price": cents(price + random.randint(-100, 100)) if state == "CMPT" else None,
               "t_chrg": cents(random.randint(100, 900)), "t_comm": cents(random.randint(100, 5000)),
               "t_tax": cents(random.randint(0, 3000))}  # fmt: skip
        before = first.randint(0, 50) * 10
        held = [] if state != "CMPT" or op == "D" else [
            {"hh_h_t_id": number, "hh_t_id": number, "hh_before_qty": before,
             "hh_after_qty": before + (quantity if kind.endswith("B") else -quantity)}]  # fmt: skip
        return {"trade": row, "steps": [] if op == "D" else steps, "held": held, "number": number}

    def _cash(self, key: int, landing: int, op: str) -> Row:
        first = self._random("cash", key, 0 if op != "I" else landing)
        moment = self._moment(first, 0 if op != "I" else landing)
        return {"ct_op": op, "ct_seq": landing, "ct_id": key, "ct_ca_id": first.randint(1, self.portfolios),
                "ct_dts": moment, "ct_amt": cents(self._random("amount", key, landing).randint(-500_000, 600_000)),
                "ct_name": f"Transaction {key}"}  # fmt: skip

    def _watch(self, key: int, landing: int) -> Iterator[Row]:
        random = self._random("watch", key, landing)
        moment = self._moment(random, landing)
        row = {"w_c_id": random.randint(1, self.customers), "w_s_symb": _symbol(random.randint(1, self.securities))}
        yield row | {"w_dts": moment, "w_action": "ACTV"}
        if random.random() < 0.3:
            yield row | {"w_dts": moment + timedelta(days=random.randint(1, 30)), "w_action": "CNCL"}

    def _market(self, security: int, day: date, landing: int) -> Row:
        random = self._random("market", (security, day), landing)
        close = 1000 + security * 37 % 5000 + random.randint(0, 3000)
        return {"dm_date": day, "dm_s_symb": _symbol(security), "dm_close": cents(close),
                "dm_high": cents(close + random.randint(0, 500)), "dm_low": cents(close - random.randint(0, 500)),
                "dm_vol": random.randint(1, 10_000) * 100, "dm_seq": landing}  # fmt: skip


def _trade_tables(trades: Sequence[dict[str, Any]]) -> Rows:
    return {
        "trade": [one["trade"] for one in trades],
        "trade_history": [{"th_t_id": one["number"], "th_dts": moment, "th_st_id": state}
                          for one in trades for state, moment in one["steps"]],
        "holding_history": [row for one in trades for row in one["held"]],
    }  # fmt: skip


def _customer_action(action: str, moment: datetime, customer: int) -> dict[str, Any]:
    return {"action": action, "action_ts": moment, "c_id": customer}


def _name(key: int) -> dict[str, str]:
    return {"last": f"{LAST_NAMES[key % 12]}{key}", "first": FIRST_NAMES[key // 12 % 12], "middle": "ABCDEF"[key % 6]}


def _address(key: int) -> dict[str, str]:
    return {"line": f"{key % 997 + 1} {STREETS[key % 6]} Street", "zip": f"{key % 89_999 + 10_000}",
            "city": CITIES[key % 6], "state": ("CA", "NY", "TX")[key % 3], "country": "USA"}  # fmt: skip


def _symbol(number: int) -> str:
    return f"SYM{number:05}"
