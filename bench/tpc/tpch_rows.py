"""Rows of TPC-H's eight tables, and changes of them: the same by scale and seed.

Scale 1 has the specification's numbers of rows. Values are drawn from its domains, but not by its program: of each
tenth part of the parts, what the queries look for is there more often, so that few rows suffice for a result of each.
Each row says what becomes of it (``op``: I, U or D) and in which landing it came (``seq``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from bench.tpc.landing import CENTS, Form, Row, Rows, cents

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0),
    ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2),
    ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
COLORS = ("almond", "azure", "beige", "blue", "brown", "coral", "cream", "forest", "green", "ivory", "khaki", "lemon",
          "linen", "maroon", "navy", "olive", "peach", "plum", "rose", "salmon", "sienna", "steel", "tan",
          "wheat")  # fmt: skip
TYPES = (("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
         ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
         ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"))  # fmt: skip
CONTAINERS = (("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"))
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
WORDS = ("special", "requests", "pending", "deposits", "even", "ideas", "final", "accounts", "silent", "foxes")
FIRST_DAY, LAST_DAY, TURN = date(1992, 1, 1), date(1998, 8, 2), date(1995, 6, 17)

# What the queries look for: fields of a part that are not drawn.
SOUGHT: tuple[dict[str, Any], ...] = (
    {"p_size": 15, "p_type": "STANDARD POLISHED BRASS"},
    {"p_brand": "Brand#23", "p_container": "MED BOX", "p_mfgr": "Manufacturer#2"},
    {"p_type": "ECONOMY ANODIZED STEEL"},
    {"p_brand": "Brand#12", "p_container": "SM BOX", "p_size": 3, "p_mfgr": "Manufacturer#1"},
    {"p_brand": "Brand#23", "p_container": "MED BAG", "p_size": 5, "p_mfgr": "Manufacturer#2"},
    {"p_brand": "Brand#34", "p_container": "LG BOX", "p_size": 10, "p_mfgr": "Manufacturer#3"},
    {"p_name": "forest green linen rose tan"},
)

FORMS = {
    "region": Form("csv"), "nation": Form("csv"), "part": Form("csv", "|"),
    "supplier": Form("json"), "customer": Form("json"),
    "partsupp": Form("parquet", schema=pa.schema([
        ("ps_partkey", pa.int64()), ("ps_suppkey", pa.int64()), ("ps_availqty", pa.int32()), ("ps_supplycost", CENTS),
        ("ps_comment", pa.string()), ("op", pa.string()), ("seq", pa.int32()),
    ])),
    "orders": Form("parquet", schema=pa.schema([
        ("o_orderkey", pa.int64()), ("o_custkey", pa.int64()), ("o_orderstatus", pa.string()), ("o_totalprice", CENTS),
        ("o_orderdate", pa.date32()), ("o_orderpriority", pa.string()), ("o_clerk", pa.string()),
        ("o_shippriority", pa.int32()), ("o_comment", pa.string()), ("op", pa.string()), ("seq", pa.int32()),
    ])),
    "lineitem": Form("parquet", schema=pa.schema([
        ("l_orderkey", pa.int64()), ("l_partkey", pa.int64()), ("l_suppkey", pa.int64()), ("l_linenumber", pa.int32()),
        ("l_quantity", CENTS), ("l_extendedprice", CENTS), ("l_discount", CENTS), ("l_tax", CENTS),
        ("l_returnflag", pa.string()), ("l_linestatus", pa.string()), ("l_shipdate", pa.date32()),
        ("l_commitdate", pa.date32()), ("l_receiptdate", pa.date32()), ("l_shipinstruct", pa.string()),
        ("l_shipmode", pa.string()), ("l_comment", pa.string()), ("op", pa.string()), ("seq", pa.int32()),
    ])),
}  # fmt: skip

LANDINGS = 16
"""Landings of changes that there can be: each has rows of its own to change, so that none is deleted twice."""


@dataclass(frozen=True)
class TpcH:
    """Rows of one scale and seed.

    Attributes:
        scale: 1 for 1,500,000 orders.
        seed: another one gives other values.
    """

    scale: float
    seed: int = 1

    def first_landing(self) -> Rows:
        """All rows of the first landing."""
        keys = {name: range(1, count + 1) for name, count in self.counts.items()}
        orders, lines = self._orders(range(self.counts["orders"]), 0, "I")
        return {
            "region": [{"r_regionkey": n, "r_name": name, "r_comment": ""} for n, name in enumerate(REGIONS)],
            "nation": [{"n_nationkey": n, "n_name": name, "n_regionkey": region, "n_comment": ""}
                       for n, (name, region) in enumerate(NATIONS)],
            "supplier": [self._supplier(key, 0, "I") for key in keys["supplier"]],
            "customer": [self._customer(key, 0, "I") for key in keys["customer"]],
            "part": [self._part(key, 0, "I") for key in keys["part"]],
            "partsupp": [row for key in keys["part"] for row in self._offers(key, 0, "I")],
            "orders": orders,
            "lineitem": lines,
        }  # fmt: skip

    def changes(self, landing: int) -> Rows:
        """What changes in a landing after the first: a thousandth of the rows of each table but region and nation.

        Of orders, a third each comes, changes and goes, with its lines; of the other tables nine of ten changes are of
        rows that are there, and the tenth is a new row.
        """
        if not 1 <= landing <= LANDINGS:
            raise ValueError(f"landings of changes are 1 to {LANDINGS}")
        parts = list(self._changed_keys("part", landing))
        come, change, go = self._order_changes(landing)
        orders, lines = self._orders(come, landing, "I")
        for numbers, op in ((change, "U"), (go, "D")):
            more = self._orders(numbers, landing, op)
            orders, lines = orders + more[0], lines + more[1]
        offers = [self._offers(key, landing, op) for key, op in parts]
        return {
            "supplier": [self._supplier(key, landing, op) for key, op in self._changed_keys("supplier", landing)],
            "customer": [self._customer(key, landing, op) for key, op in self._changed_keys("customer", landing)],
            "part": [self._part(key, landing, op) for key, op in parts],
            # Of a part that is there one offer changes, and of a new one all are new.
            "partsupp": [row for rows in offers for row in (rows if rows[0]["op"] == "I" else rows[:1])],
            "orders": orders,
            "lineitem": lines,
        }

    @property
    def counts(self) -> dict[str, int]:
        """Rows of the tables in the first landing; a part has four offers, and an order one to seven lines."""

        def scaled_count(rows: int, least: int) -> int:
            return max(round(rows * self.scale), least)

        return {
            "supplier": scaled_count(10_000, 50),
            "customer": scaled_count(150_000, 150),
            "part": scaled_count(200_000, 200),
            "orders": scaled_count(1_500_000, 1_500),
        }

    # --- what changes ------------------------------------------------------------------------------------------------

    def _changed_keys(self, table: str, landing: int) -> Iterator[tuple[int, str]]:
        """Keys of a thousandth of the rows, those that are there before those that are new."""
        count = self.counts[table]
        many = max(count // 1000, 1)
        new = max(many // 10, 1)
        random = Random(f"{self.seed} {table} {landing}")
        yield from ((key, "U") for key in sorted(random.sample(range(1, count + 1), many)))
        yield from ((count + (landing - 1) * new + n, "I") for n in range(1, new + 1))

    def _order_changes(self, landing: int) -> tuple[list[int], list[int], list[int]]:
        """Numbers of orders that come, change and go."""
        count = self.counts["orders"]
        third = max(count // 3000, 1)
        theirs = range(landing - 1, count, LANDINGS)
        some = Random(f"{self.seed} orders {landing}").sample(theirs, 2 * third)
        come = [count + (landing - 1) * third + n for n in range(third)]
        return come, sorted(some[:third]), sorted(some[third:])

    # --- rows --------------------------------------------------------------------------------------------------------

    def _random(self, table: str, key: int, landing: int) -> Random:
        return Random(f"{self.seed} {table} {key} {landing}")

    def _supplier(self, key: int, landing: int, op: str) -> Row:
        random = self._random("supplier", key, landing)
        nation = key % len(NATIONS)
        complaint = "Customer told of Complaints" if key % 40 == 7 else _comment(random)
        return {"s_suppkey": key, "s_name": f"Supplier#{key:09}", "s_address": _address(random),
                "s_nationkey": nation, "s_phone": _phone(random, nation), "s_acctbal": _balance(random),
                "s_comment": complaint, "op": op, "seq": landing}  # fmt: skip

    def _customer(self, key: int, landing: int, op: str) -> Row:
        random = self._random("customer", key, landing)
        nation = key * 7 % len(NATIONS)
        return {"c_custkey": key, "c_name": f"Customer#{key:09}", "c_address": _address(random), "c_nationkey": nation,
                "c_phone": _phone(random, nation), "c_acctbal": _balance(random),
                "c_mktsegment": random.choice(SEGMENTS), "c_comment": _comment(random), "op": op,
                "seq": landing}  # fmt: skip

    def _part(self, key: int, landing: int, op: str) -> Row:
        random = self._random("part", key, landing)
        maker = random.randint(1, 5)
        row = {"p_partkey": key, "p_name": " ".join(random.sample(COLORS, 5)), "p_mfgr": f"Manufacturer#{maker}",
               "p_brand": f"Brand#{maker}{random.randint(1, 5)}", "p_type": " ".join(map(random.choice, TYPES)),
               "p_size": random.randint(1, 50), "p_container": " ".join(map(random.choice, CONTAINERS)),
               "p_retailprice": cents(_price(key)), "p_comment": random.choice(WORDS)}  # fmt: skip
        sought = SOUGHT[key // 10 % len(SOUGHT)] if key % 10 == 0 else {}
        return row | sought | {"op": op, "seq": landing}

    def _offers(self, part: int, landing: int, op: str) -> list[Row]:
        random = self._random("partsupp", part, landing)
        return [{"ps_partkey": part, "ps_suppkey": self._supplier_of(part, n), "ps_availqty": random.randint(1, 9999),
                 "ps_supplycost": cents(random.randint(100, 100_000)), "ps_comment": _comment(random), "op": op,
                 "seq": landing} for n in range(4)]  # fmt: skip

    def _supplier_of(self, part: int, number: int) -> int:
        count = self.counts["supplier"]
        return (part + number * (count // 4 + (part - 1) // count)) % count + 1

    def _orders(self, numbers: Any, landing: int, op: str) -> tuple[list[Row], list[Row]]:
        """Orders and their lines. One that changes has the lines that it had, at other quantities."""
        orders: list[Row] = []
        lines: list[Row] = []
        for number in numbers:
            order, its = self._order(number, landing, op)
            orders.append(order)
            lines += its
        return orders, lines

    def _order(self, number: int, landing: int, op: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        random = self._random("orders", number, 0)
        key = number // 8 * 32 + number % 8 + 1
        customer = random.randint(1, self.counts["customer"])
        customer -= customer % 3 == 0  # a third of the customers never orders
        day = FIRST_DAY + timedelta(days=random.randint(0, (LAST_DAY - FIRST_DAY).days))
        bulk = random.random() < 0.003
        shapes = [(random.randint(1, self.counts["part"]), random.randint(0, 3), random.randint(1, 121),
                   random.randint(30, 90), random.randint(1, 30))
                  for _ in range(7 if bulk else random.randint(1, 7))]  # fmt: skip
        fresh = self._random("lineitem", number, landing)
        lines = [{**self._line(fresh, key, n, shape, day, bulk), "op": op, "seq": landing}
                 for n, shape in enumerate(shapes, 1)]  # fmt: skip
        states = {line["l_linestatus"] for line in lines}
        total = sum(line["l_extendedprice"] * (1 - line["l_discount"]) * (1 + line["l_tax"]) for line in lines)
        order = {"o_orderkey": key, "o_custkey": customer, "o_orderstatus": states.pop() if len(states) == 1 else "P",
                 "o_totalprice": round(total, 2), "o_orderdate": day, "o_orderpriority": fresh.choice(PRIORITIES),
                 "o_clerk": f"Clerk#{random.randint(1, 1000):09}", "o_shippriority": 0,
                 "o_comment": _comment(fresh), "op": op, "seq": landing}  # fmt: skip
        return order, lines

    def _line(self, random: Random, order: int, number: int, shape: tuple[int, ...], day: date, bulk: bool) -> Row:
        part, offer, ship, commit, receipt = shape
        shipped = day + timedelta(days=ship)
        received = shipped + timedelta(days=receipt)
        quantity = random.randint(45, 50) if bulk else random.randint(1, 50)
        return {"l_orderkey": order, "l_partkey": part, "l_suppkey": self._supplier_of(part, offer),
                "l_linenumber": number, "l_quantity": cents(quantity * 100),
                "l_extendedprice": cents(quantity * _price(part)), "l_discount": cents(random.randint(0, 10)),
                "l_tax": cents(random.randint(0, 8)),
                "l_returnflag": random.choice("RA") if received <= TURN else "N",
                "l_linestatus": "O" if shipped > TURN else "F", "l_shipdate": shipped,
                "l_commitdate": day + timedelta(days=commit), "l_receiptdate": received,
                "l_shipinstruct": random.choice(INSTRUCTIONS), "l_shipmode": random.choice(MODES),
                "l_comment": random.choice(WORDS)}  # fmt: skip


def _price(part: int) -> int:
    return 90_000 + part // 10 % 20_001 + 100 * (part % 1000)


def _phone(random: Random, nation: int) -> str:
    return f"{nation + 10}-{random.randint(100, 999)}-{random.randint(100, 999)}-{random.randint(1000, 9999)}"


def _balance(random: Random) -> Decimal:
    return cents(random.randint(-99999, 999999))


def _address(random: Random) -> str:
    return f"{random.randint(1, 999)} {random.choice(COLORS).title()} Street"


def _comment(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=4))
