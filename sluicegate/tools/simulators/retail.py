"""Shops that sell, buy and move goods, in the shape that ``pipelines/retail`` reads.

::

    {landing}/stores/stores.csv                       store_id,city,region; written once
    {landing}/suppliers/suppliers.csv                 supplier_id,name,country; written once
    {landing}/products/products-000001.json           {product_id, name, category, list_price, updated}; later ones
                                                      have products that are new, and some whose price changed
    {landing}/customers/customers-000001.json         {customer_id, name, city, updated}; in the same way
    {landing}/orders/orders-000001.json               {order_id, customer_id, store_id, product_id, ordered_at, …}
    {landing}/purchase_orders/…, inventory_movements/…

Each file covers twelve hours. Of late records every second one is two days older, and the others are of a product that
only the next file describes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from sluicegate.tools.simulators import engine
from sluicegate.tools.simulators.engine import Faults, File, Kind, Landed, Order, Record

SPAN = 43_200.0
PRODUCTS, CUSTOMERS, NEW, UPDATED = 40, 120, 2, 3
INVALID_SHARE = 0.004  # orders of nothing

STORES = (
    ("ST1", "Lyon", "South"), ("ST2", "Oslo", "North"), ("ST3", "Porto", "South"),
    ("ST4", "Riga", "North"), ("ST5", "Vienna", "Centre"),
)  # fmt: skip
SUPPLIERS = (("SU1", "Brandt & Sons", "Austria"), ("SU2", "Novak Trading", "Czechia"), ("SU3", "Silva Lda", "Portugal"))
_GOODS = (
    ("Kettle", "Kitchen"), ("Pan", "Kitchen"), ("Lamp", "Home"), ("Rug", "Home"), ("Spade", "Garden"),
    ("Hose", "Garden"), ("Radio", "Electronics"), ("Clock", "Home"), ("Grill", "Garden"), ("Mixer", "Kitchen"),
)  # fmt: skip
_NAMES = ("Ada", "Bruno", "Chloe", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kavya", "Liam")


def _drift(record: Record) -> None:
    if record["quantity"] is not None:
        record["quantity"] = str(record["quantity"])
    record["terminal"] = "T2"


def _fact(folder: str) -> Kind:
    return Kind(folder, "quantity", _delay, _drift)


def _delay(record: Record) -> None:
    """Make a record two days older, or one of a product not known yet, by its number's parity."""
    key = next(iter(record.values()))
    if int(key[-1]) % 2:
        moment = next(name for name in record if name.endswith("_at"))
        record[moment] = _text(datetime.fromisoformat(record[moment]).timestamp() - engine.LATE)
    else:
        record["product_id"] = f"P{product_count(int(key[2:8])) + 1:04d}"


_PRODUCTS, _CUSTOMERS = Kind("products"), Kind("customers")
_PURCHASES, _MOVEMENTS, LEADING = _fact("purchase_orders"), _fact("inventory_movements"), _fact("orders")


def files(home: Path, number: int, order: Order) -> Iterable[File]:
    """Make the files with a number; stores and suppliers are written once."""
    _write_once(home / "stores" / "stores.csv", "store_id,city,region", STORES)
    _write_once(home / "suppliers" / "suppliers.csv", "supplier_id,name,country", SUPPLIERS)
    seed = order.seed
    start = engine.begin_of(home / _PRODUCTS.path(1), number, order) + SPAN * (number - 1)
    for kind, maker, first in ((_PRODUCTS, _product, PRODUCTS), (_CUSTOMERS, _customer, CUSTOMERS)):
        numbers = engine.described_numbers(
            first, NEW, UPDATED, number, engine.dice(seed, "changed", kind.folder, number)
        )
        rows = [maker(n, number, seed) | {"updated": _text(start)} for n in numbers]
        yield kind.file(number, rows, Faults(), engine.dice(seed), Landed("", len(rows)))
    makers: dict[Kind, Callable[[str, str, int, random.Random], Record]] = {
        _PURCHASES: _purchase, _MOVEMENTS: _movement, LEADING: _order
    }  # fmt: skip
    for kind, make in makers.items():
        lot = engine.dice(seed, kind.folder, number)
        moments = engine.times(start, SPAN, order.records, lot)
        begins = "".join(word[0] for word in kind.folder.split("_")).upper().ljust(2, "R")
        facts = [make(f"{begins}{number:06d}{n:06d}", _text(moment), number, lot) for n, moment in enumerate(moments)]
        invalid = sum(record["quantity"] == 0 for record in facts)
        yield kind.file(
            number, facts, order.faults, engine.dice(seed, "faults", kind.folder, number),
            engine.landed_facts(moments, invalid=invalid),
        )  # fmt: skip


def product_count(number: int) -> int:
    """Return the number of products known by the file with a number."""
    return PRODUCTS + NEW * (number - 1)


def _write_once(path: Path, header: str, rows: Iterable[tuple[str, ...]]) -> None:
    if not path.exists():
        engine.write(path, "\n".join([header, *map(",".join, rows)]) + "\n")


def _product(n: int, number: int, seed: int | None) -> Record:
    name, category = _GOODS[n % len(_GOODS)]
    cents = 500 + engine.dice(seed, "price", n, number).randrange(9500)
    return {"product_id": f"P{n:04d}", "name": f"{name} {n}", "category": category, "list_price": cents / 100}


def _customer(n: int, number: int, seed: int | None) -> Record:
    lot = engine.dice(seed, "customer", n, number)
    return {"customer_id": f"K{n:05d}", "name": f"{_NAMES[n % len(_NAMES)]} {n}", "city": lot.choice(STORES)[1]}


def _order(order_id: str, time: str, number: int, lot: random.Random) -> Record:
    customers = CUSTOMERS + NEW * (number - 1)
    return {
        "order_id": order_id, "customer_id": f"K{lot.randint(1, customers):05d}", "store_id": lot.choice(STORES)[0],
        "product_id": f"P{lot.randint(1, product_count(number)):04d}", "ordered_at": time,
        "quantity": 0 if lot.random() < INVALID_SHARE else lot.choice([1, 1, 1, 2, 3]),
        "unit_price": lot.randrange(500, 10_000) / 100,
    }  # fmt: skip


def _purchase(purchase_order_id: str, time: str, number: int, lot: random.Random) -> Record:
    return {
        "purchase_order_id": purchase_order_id, "supplier_id": lot.choice(SUPPLIERS)[0],
        "store_id": lot.choice(STORES)[0], "product_id": f"P{lot.randint(1, product_count(number)):04d}",
        "ordered_at": time, "quantity": lot.choice([10, 20, 50]), "unit_cost": lot.randrange(200, 6_000) / 100,
    }  # fmt: skip


def _movement(movement_id: str, time: str, number: int, lot: random.Random) -> Record:
    reason = lot.choice(["received", "sold", "sold", "returned", "damaged"])
    quantity = lot.randint(1, 20)
    return {
        "movement_id": movement_id, "store_id": lot.choice(STORES)[0],
        "product_id": f"P{lot.randint(1, product_count(number)):04d}", "moved_at": time,
        "quantity": quantity if reason in ("received", "returned") else -quantity, "reason": reason,
    }  # fmt: skip


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
