"""What the pipelines of this project must give, from the landed files in plain Python: no code of theirs is in it."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Rows = list[tuple[Any, ...]]
Tables = dict[str, tuple[tuple[str, ...], Rows]]
"""The columns of a table, and its rows."""


def plain(rows: Iterable[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows that can be compared: times to the millisecond, nested values as text; doubles must be the very same."""
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def heart_rate(landing: Path) -> Tables:
    names = {int(row["mrn"]): row["name"] for row in table_of(landing / "patients")}
    everything = list(records(landing / "recordings"))
    silver: dict[tuple[int, float], tuple[Any, ...]] = {}
    for reading in everything:
        device, mrn, rate = int(reading["device_id"]), int(reading["mrn"]), number(reading["heartrate"])
        if rate is not None and rate > 0 and mrn in names:
            silver.setdefault((device, reading["time"]), (device, mrn, names[mrn], _time(reading["time"]), rate))
    days = _grouped(silver.values(), lambda row: (row[1], row[2], _day(row[3])), lambda row: row[4])
    return {
        "recordings_enriched": (("device_id", "mrn", "name", "time", "heartrate"), list(silver.values())),
        "daily_patient_avg": (
            ("mrn", "name", "date", "avg_heartrate"),
            [(*key, _average(rates)) for key, rates in days.items()],
        ),
        "device_counts": (
            ("device_id", "total_recordings"),
            list(Counter(int(r["device_id"]) for r in everything).items()),
        ),
    }


def healthcare_dlh(landing: Path) -> Tables:
    names = {int(row["mrn"]): row["name"] for row in table_of(landing / "patients")}
    silver = [
        (int(r["device_id"]), int(r["mrn"]), _time(r["time"]), number(r["heartrate"]), names.get(int(r["mrn"])))
        for r in records(landing / "recordings")
    ]
    patients = _grouped((row for row in silver if row[4]), lambda row: row[4], lambda row: row[3])
    gold = []
    for name, rates in patients.items():
        known = [rate for rate in rates if rate is not None]
        gold.append((name, math.ceil(_average(known)), len(rates)))
    return {
        "dim_patients": (("mrn", "name"), list(names.items())),
        "fact_heartbeat_silver": (("device_id", "mrn", "datetime", "heartrate", "patient_name"), silver),
        "fact_heartbeat_by_patient_gold": (("patient_name", "avg_heartrate", "count"), gold),
    }


def online_school(landing: Path) -> Tables:
    students = latest(records(landing / "students"), "student_id")
    courses = list(table_of(landing / "courses", ";"))
    everything = list(records(landing / "enrollments"))
    silver: dict[str, tuple[Any, ...]] = {}
    for one in everything:
        quantity, student = number(one["quantity"]), students.get(one["student_id"])
        if quantity is not None and quantity > 0 and student:
            row = (int(quantity), one["student_id"], student["email"], _time(one["enroll_timestamp"]), one["courses"])
            silver.setdefault(one["enroll_id"], (one["enroll_id"], *row))
    days = _grouped(silver.values(), lambda row: (row[2], row[3], _day(row[4])), lambda row: row[1])
    enrolled = [
        (id_, student, time, *(course[name] for name in ("course_id", "discount_percent", "subtotal")))
        for id_, _, student, _, time, its in silver.values()
        for course in its
    ]
    revenue = _grouped(enrolled, lambda row: row[3], lambda row: row[5])
    told = ("student_id", "email", "gpa", "profile", "updated")
    return {
        "students_lookup": (
            told,
            [(*[s[name] for name in told[:-1]], datetime.fromisoformat(s["updated"])) for s in students.values()],
        ),
        "enrollments_silver": (
            ("enroll_id", "quantity", "student_id", "email", "formatted_timestamp", "courses"),
            list(silver.values()),
        ),
        "enrolled_courses": (
            ("enroll_id", "student_id", "formatted_timestamp", "course_id", "discount_percent", "subtotal"), enrolled
        ),
        "course_revenue": (
            ("course_id", "enrollments", "revenue"),
            [(id_, len(its), round(math.fsum(its), 2)) for id_, its in revenue.items()],
        ),
        "daily_student_courses": (
            ("student_id", "email", "day", "courses_counts"), [(*key, sum(counts)) for key, counts in days.items()]
        ),
        "instructor_counts": (
            ("instructor", "total_courses"), list(Counter(course["instructor"] for course in courses).items())
        ),
    }  # fmt: skip


def retail(landing: Path) -> Tables:
    products = latest(records(landing / "products"), "product_id")
    regions = {row["store_id"]: row["region"] for row in table_of(landing / "stores")}

    def facts(folder: str, *names: str, zero: bool = False) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for one in records(landing / folder):
            quantity, product = number(one["quantity"]), products.get(one["product_id"])
            if product and quantity is not None and (quantity > 0 or (zero and quantity)):
                row = {**one, "quantity": int(quantity), "category": product["category"]}
                found.setdefault(one[names[0]], {name: _fact(name, row[name]) for name in names})
        return found

    orders = facts("orders", "order_id", "customer_id", "store_id", "product_id", "category", "ordered_at", "quantity",
                   "unit_price")  # fmt: skip
    bought = facts("purchase_orders", "purchase_order_id", "supplier_id", "product_id", "quantity", "unit_cost")
    moved = facts("inventory_movements", "movement_id", "product_id", "moved_at", "quantity", "reason", zero=True)
    sales = _grouped(
        orders.values(),
        lambda one: (regions[one["store_id"]], one["category"], _day(one["ordered_at"])),
        lambda one: (one["quantity"], one["quantity"] * one["unit_price"]),
    )
    daily = [(*k, len(v), sum(n for n, _ in v), math.fsum(money for _, money in v)) for k, v in sales.items()]
    regions_of = _grouped(daily, lambda row: row[0], lambda row: row[2:])
    totals = {
        region: (sum(row[1] for row in rows), sum(row[2] for row in rows), math.fsum(row[3] for row in rows),
                 max(row[0] for row in rows))
        for region, rows in regions_of.items()
    }  # fmt: skip
    parts = {key: math.fsum(money) for key, money in _grouped(daily, lambda r: r[:2], lambda r: r[5]).items()}
    balance = []
    for product in products.values():
        of = [
            [one for one in fact.values() if one["product_id"] == product["product_id"]]
            for fact in (orders, bought, moved)
        ]
        counts = [sum(one["quantity"] for one in some) for some in of]
        margin = math.fsum(one["quantity"] * one["unit_price"] for one in of[0]) - math.fsum(
            one["quantity"] * one["unit_cost"] for one in of[1]
        )
        balance.append((product["product_id"], product["name"], product["category"], *counts, round(margin, 2)))
    named = {"fact_orders": orders, "fact_purchase_orders": bought, "fact_inventory_movements": moved}
    silver: Tables = {
        name: (tuple(next(iter(fact.values()))), [tuple(one.values()) for one in fact.values()])
        for name, fact in named.items()
    }
    return silver | {
        "daily_sales": (("region", "category", "day", "orders", "sold", "revenue"), daily),
        "region_sales": (
            ("region", "orders", "sold", "revenue", "last_day"), [(region, *of) for region, of in totals.items()]
        ),
        "category_shares": (
            ("region", "category", "revenue", "share"),
            [(*key, revenue, revenue / totals[key[0]][2]) for key, revenue in parts.items()],
        ),
        "product_balance": (
            ("product_id", "name", "category", "sold", "bought", "net_movement", "margin"), balance
        ),
    }  # fmt: skip


EXPECTED: dict[str, Callable[[Path], Tables]] = {
    "heart_rate": heart_rate, "healthcare_dlh": healthcare_dlh, "online_school": online_school,
    "online_school_python": online_school, "retail": retail,
}  # fmt: skip


def records(folder: Path) -> Iterator[Record]:
    """The records of all JSON files in order, those that are cut off left out."""
    for file in sorted(folder.glob("*.json")):
        text = file.read_text()
        if text.startswith("["):
            yield from json.loads(text)
            continue
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def table_of(folder: Path, separator: str = ",") -> Iterator[dict[str, str]]:
    for file in sorted(folder.glob("*.csv")):
        yield from csv.DictReader(file.read_text().splitlines(), delimiter=separator)


def latest(told: Iterable[Record], key: str) -> dict[str, Record]:
    """The record of each key that was updated last."""
    return {one[key]: one for one in sorted(told, key=lambda one: one["updated"])}


def number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _grouped(rows: Iterable[Any], key: Callable[[Any], Any], value: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(value(row))
    return groups


def _average(values: list[float]) -> float:
    """The exact average, rounded once."""
    return float(sum(map(Fraction, values)) / len(values))


def _fact(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name.endswith("_at") else value


def _time(seconds: Any) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


def _day(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp(), 3)
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, dict)) else value
