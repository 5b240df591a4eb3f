"""The rows of TPC-H and TPC-DI, their definitions, and the oracle that tables are held against."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.tpc import oracle, page
from bench.tpc.__main__ import main
from bench.tpc.measure import Cost, Figures
from bench.tpc.oracle import Oracle
from bench.tpc.results import Results
from bench.tpc.tpcdi_rows import TpcDi
from bench.tpc.tpch_rows import LANDINGS, TpcH
from bench.tpc.world import World
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

SCALES = {"tpch": 0.001, "tpcdi": 0.01}


@pytest.fixture(scope="module", params=SCALES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp(request.param), request.param, SCALES[request.param])
    made.define(twins=True)
    made.land()
    made.land(1)
    return made


def test_the_same_seed_gives_the_same_rows() -> None:
    for kind, scale in ((TpcH, 0.001), (TpcDi, 0.01)):
        assert kind(scale).first_landing() == kind(scale).first_landing()
        assert kind(scale).changes(2) == kind(scale).changes(2)
        assert kind(scale).first_landing() != kind(scale, seed=2).first_landing()


def test_a_landing_changes_a_thousandth_of_the_orders() -> None:
    made = TpcH(0.004)
    rows, changed = made.first_landing(), made.changes(1)
    assert len(changed["orders"]) == len(rows["orders"]) // 1000
    assert Counter(row["op"] for row in changed["orders"]) == {"I": 2, "U": 2, "D": 2}
    lines = {(row["l_orderkey"], row["l_linenumber"]) for row in rows["lineitem"]}
    gone = [row for row in changed["lineitem"] if row["op"] != "I"]
    assert {(row["l_orderkey"], row["l_linenumber"]) for row in gone} <= lines
    assert all((row["l_orderkey"], row["l_linenumber"]) not in lines for row in changed["lineitem"] if row["op"] == "I")


def test_no_two_landings_change_the_same_order() -> None:
    made = TpcH(0.004)
    keys = Counter(row["o_orderkey"] for n in range(1, LANDINGS + 1) for row in made.changes(n)["orders"])
    assert set(keys.values()) == {1}


@pytest.mark.parametrize("kind", [TpcH, TpcDi])
def test_landings_of_changes_have_numbers(kind: type[TpcH] | type[TpcDi]) -> None:
    for number in (0, LANDINGS + 1):
        with pytest.raises(ValueError, match="1 to 16"):
            kind(0.001).changes(number)
    assert kind(0.001).changes(LANDINGS)


def test_every_table_has_rows_and_twins(world: World) -> None:
    oracles = Oracle(world.name, world.folder / "landing")
    assert {table for table in oracles.tables if not oracles.rows(table)[1]} == set()
    pipeline = world.pipeline
    assert {*oracles.tables} <= {*pipeline.silver, *pipeline.gold}
    assert len(oracles.tables) == {"tpch": 22, "tpcdi": 18}[world.name]
    own = {name for name in pipeline.gold if not name.endswith("_whole")}
    assert {*pipeline.gold} == own | {f"{name}_whole" for name in own}
    assert {pipeline.gold[f"{name}_whole"].refresh for name in own} == {"full"}


def test_the_oracle_tells_the_first_difference() -> None:
    rows: list[tuple[Any, ...]] = [("a", 1, 2.0), ("b", 2, None), ("b", 2, None)]
    assert oracle._first_difference("t", rows, rows[::-1]) is None
    assert oracle._first_difference("t", rows, [("a", 1, 2.0 + 1e-6), *rows[1:]]) is None
    assert str(oracle._first_difference("t", rows, [("a", 1, 2.1), *rows[1:]])).startswith(
        "t has 3 rows for 3; first ('a', 1.0"
    )
    assert str(oracle._first_difference("t", rows, rows[:2])).endswith("first ('b', 2.0, None) for None")
    assert str(oracle._first_difference("t", rows[:2], rows)).endswith("first None for ('b', 2.0, None)")
    some: list[tuple[Any, ...]] = [(None, 1.0), (2, None), (None, "x"), (3.5, "x")]
    assert oracle._first_difference("t", some, some[::-1]) is None
    assert oracle._first_difference("t", [("a", 1e12)], [("a", 1e12 + 1)]) is None  # a part in 10⁹
    assert oracle._first_difference("t", [("a", 1e9)], [("a", 1e9 + 2)]) is not None


def test_the_table_has_a_line_for_each_table_and_the_page_their_totals(tmp_path: Path) -> None:
    kept = Figures(
        "q01", "gold", 4, "partial", "rows that come add", ["partial"], [Cost(1.0, 0.5, 2000)], [Cost(2.0, 2.0, 9000)]
    )
    whole = Figures("q02", "gold", 9, "whole", "a, b", ["whole"], [Cost(1.5, 1.0, 10)], [Cost(1.5, 1.0, 10)])
    still = Figures("dim_date", "silver", 7)
    results = Results()
    results.put("tpcdi", 0.2, [still], {"cores": "2"})
    results.put("tpch", 0.05, [kept, whole], {"cores": "2"})
    (tmp_path / "bench").mkdir()
    results.write(tmp_path / "bench" / "tpc.json")
    assert main(["--write", "--out", str(tmp_path)]) == 0
    lines = (tmp_path / "bench" / "tpc.csv").read_text().splitlines()
    assert lines[1:] == [
        "TPC-H,0.05,q01,4,incremental,1.00,0.50,2000,2.00,2.00,9000,0.25,rows that come add",
        'TPC-H,0.05,q02,9,recomputed,1.50,1.00,10,1.50,1.00,10,1.00,"a, b"',
        "TPC-DI,0.2,dim_date,7,record by record,,,,,,,,",
    ]
    text = (tmp_path / "tpc.md").read_text()
    # q02 is recomputed in any case, so that it is not part of the totals.
    assert "| TPC-H, scale 0.05 | 2 | incremental: 1, recomputed: 1 | 0 | 2 | 2.0 kB | 9.0 kB |" in text
    assert "| TPC-DI, scale 0.2 | 1 | record by record: 1 | 0 | 0 | 0 B | 0 B |" in text
    assert "`q02` is recomputed (a, b)" in text


def test_the_committed_page_and_table_are_those_of_the_committed_figures() -> None:
    docs = ROOT / "docs"
    results = Results.read(docs / "bench" / "tpc.json")
    assert results.figures
    assert page.page(results) == (docs / page.PAGE).read_text()
    assert page.table(results) == (docs / page.TABLE).read_text()


def test_figures_of_another_scale_go() -> None:
    results, (one, other) = Results(), (Figures("q01", "gold"), Figures("q02", "gold"))
    results.put("tpch", 0.05, [one], {})
    results.put("tpch", 0.05, [other], {})
    assert {*results.figures["tpch"]} == {"q01", "q02"}
    results.put("tpch", 0.1, [other], {})
    assert {*results.figures["tpch"]} == {"q02"}


def test_rows_can_be_landed_alone(tmp_path: Path) -> None:
    assert main(["--land", "tpcdi", "--scale", "0.01", "--changes", "1", "--to", str(tmp_path)]) == 0
    assert (tmp_path / "daily_market" / "001.parquet").exists()
