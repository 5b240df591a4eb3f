"""Which technique a batch of a gold table is given: by defaults first, then by what its own runs took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.flow import refresh_cost
from sluicegate.flow.refresh_cost import (
    LEAST,
    MARGIN,
    MOST,
    NEWEST,
    OWN_RUNS,
    RATES,
    TRIAL_FACTOR,
    FormerRun,
    Rates,
    RefreshCost,
    Technique,
    Work,
    permitted_techniques,
)
from sluicegate.lake import log as lake_log
from sluicegate.spark_sql.refresh.strategy import refresh_strategy

pytestmark = pytest.mark.unit

WITH_STATE: list[Technique] = ["partial", "groups", "whole"]
WITHOUT: list[Technique] = ["restart", "groups", "whole"]


def work(changed: int, all_: int = 3_000_000, held: int = 1_000) -> Work:
    return Work(changed, all_, held, min(changed, held))


def ran(technique: Technique, of: Work, seconds: float, **estimates: float) -> FormerRun:
    return FormerRun(technique, of, seconds, estimates)


def test_the_first_batches_follow_the_defaults() -> None:
    """Few rows of a large table are applied, most of it is made whole, and so is a table that is hardly too large."""
    cost = RefreshCost()
    assert cost.choose(WITH_STATE, work(1_000, 50_000_000)).technique == "partial"
    assert cost.choose([*WITH_STATE, "restart"], work(30_000_000, 50_000_000)).technique == "whole"
    assert cost.choose(WITH_STATE, work(1_000, 120_000)).technique == "whole"
    assert cost.choose(["groups", "whole"], work(10, 50_000_000)).technique == "groups"
    assert cost.choose(["groups", "whole"], work(25_000_000, 50_000_000)).technique == "whole"
    choice = cost.choose(["whole"], work(5))
    assert (choice.technique, {*choice.estimates}) == ("whole", {"whole"})


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each technique takes 10 seconds a million rows of its own kind."""
    kinds = {"partial": "changed", "restart": "held", "groups": "touched", "whole": "all"}
    rates = {technique: Rates(1e-9, **{kind: 10.0}) for technique, kind in kinds.items()}
    monkeypatch.setattr(refresh_cost, "RATES", rates)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("last", "other"), [("partial", "whole"), ("whole", "partial")])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_another_technique_has_to_be_cheaper_by_the_MARGIN(last: Technique, other: Technique, beyond: int) -> None:
    """Of a million rows by the last technique, as many as the margin by the other one, and one more and less."""
    fewer = round(MARGIN * 1_000_000) + beyond
    changed, all_ = (1_000_000, fewer) if last == "partial" else (fewer, 1_000_000)
    former = Work(1_000_000, 1_000_000, 0, 0)
    cost = RefreshCost([ran(last, former, RefreshCost().seconds(last, former))])
    assert cost.choose(["partial", "whole"], Work(changed, all_, 0, 0)).technique == (last if beyond >= 0 else other)


@pytest.mark.usefixtures("plain")
@given(noise=st.lists(st.floats(0.85, 1.15), min_size=4, max_size=12), first=st.sampled_from(["partial", "whole"]))
def test_techniques_that_cost_the_same_do_not_take_turns(noise: list[float], first: Technique) -> None:
    runs = [ran(first, Work(1_000_000, 1_000_000, 0, 0), 10.0)]
    for factor in noise:
        choice = RefreshCost(runs).choose(["partial", "whole"], Work(1_000_000, 1_000_000, 0, 0))
        assert choice.technique == first
        runs.insert(0, ran(choice.technique, choice.work, 10.0 * factor))


def test_estimates_become_what_the_runs_of_the_table_took() -> None:
    """A machine ten times as slow; then a query that takes four times as long to be run whole, and no more in parts."""
    small, large = work(1_000), work(2_000_000)
    by_default = {of: {name: RefreshCost().seconds(name, of) for name in RATES} for of in (small, large)}
    slow = RefreshCost([ran("partial", of, 10 * by_default[of]["partial"]) for of in (small, large) * 5])
    for name in RATES:  # those that were never tried, too
        for of in (small, large):
            assert slow.seconds(name, of) == pytest.approx(10 * by_default[of][name], rel=0.3)
    runs = [ran(name, of, (4 if name == "whole" else 1) * by_default[of][name])
            for of in (small, large) * 4 for name in ("partial", "whole")]  # fmt: skip
    learned = RefreshCost(runs)
    assert learned.seconds("partial", small) == pytest.approx(by_default[small]["partial"], rel=0.3)
    assert learned.seconds("whole", large) == pytest.approx(4 * by_default[large]["whole"], rel=0.3)


@pytest.mark.parametrize(("took", "factor"), [(0.0, LEAST), (1e9, MOST), (1.0, 1.0)])
def test_a_factor_is_from_LEAST_to_MOST(took: float, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine runs as long as the clock shows none, or a machine stood still."""
    monkeypatch.setattr(refresh_cost, "OWN_RUNS", 10)
    usual, runs = RefreshCost().seconds("partial", work(1_000)), []
    for _ in range(9):
        runs.append(ran("partial", work(1_000), took * usual))
        for name in RATES:
            found = RefreshCost(runs).seconds(name, work(1_000)) / RefreshCost().seconds(name, work(1_000))
            assert LEAST * 0.999 <= found <= MOST * 1.001
    fixed = Work(0, 0, 0, 0)
    found = RefreshCost(runs).seconds("partial", fixed) / RefreshCost().seconds("partial", fixed)
    assert found == pytest.approx(factor, abs=0.06)


@pytest.mark.parametrize("runs", [OWN_RUNS - 1, OWN_RUNS, OWN_RUNS + 1])
def test_a_technique_that_is_slow_each_time_is_taken_for_it_from_OWN_RUNS_on(runs: int) -> None:
    """Applied rows take a hundred times as long as they should, which is more than to read all of them."""
    batch = work(1_000, 20_000_000)
    usual = RefreshCost().seconds("partial", batch)
    slow = RefreshCost([ran("partial", batch, 100 * usual) for _ in range(runs)])
    assert (slow.seconds("partial", batch) > MOST * 1.5 * usual) is (runs >= OWN_RUNS)


@pytest.mark.usefixtures("plain")
def test_state_is_made_again_however_many_batches_it_takes() -> None:
    """A batch takes 2 seconds with state and 3 without, and state takes a hundred to make."""
    batch = Work(changed=200_000, all=300_000, held=10_000_000, touched=10_000_000)
    runs: list[FormerRun] = [ran("partial", batch, 2.0)]
    taken: list[Technique] = []
    while "restart" not in taken and len(taken) < 200:
        choice = RefreshCost(runs[:NEWEST]).choose(WITHOUT, batch)
        taken.append(choice.technique)
        runs.insert(0, FormerRun(choice.technique, batch, 3.0, choice.estimates, choice.regret))
    assert NEWEST < len(taken) <= 110


@pytest.mark.usefixtures("plain")
def test_state_is_made_again_once_the_batches_without_it_have_cost_as_much_more() -> None:
    """A batch takes 1 second with state and 10 without, and to make state takes 25 more."""
    batch = Work(changed=100_000, all=1_000_000, held=3_500_000, touched=3_500_000)
    runs: list[FormerRun] = [ran("partial", batch, 1.0)]
    taken = []
    for _ in range(4):
        choice = RefreshCost(runs).choose(WITHOUT, batch)
        taken.append(choice.technique)
        took = {"whole": 10.0, "restart": 35.0}[choice.technique]
        runs.insert(0, FormerRun(choice.technique, batch, took, {"partial": 1.0}, choice.regret))
    assert taken[:3] == ["whole", "whole", "restart"]
    assert RefreshCost(runs[1:]).has_state
    assert not RefreshCost(runs[2:]).has_state


@pytest.mark.parametrize(
    ("query", "auto", "small", "few", "state", "found"),
    [
        ("SELECT g, sum(x) AS s FROM t GROUP BY g", True, False, True, True, "partial groups whole"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g", True, False, False, True, "partial restart groups whole"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g", True, False, True, False, "restart groups whole"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g", True, True, True, False, "whole"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g", False, True, True, True, "partial"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g", False, True, False, True, "partial restart"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g", False, True, True, False, "restart"),
        ("SELECT sum(x) AS s FROM t GROUP BY g", True, False, True, True, "partial whole"),
        ("SELECT sum(x) AS s FROM t", True, False, True, True, "partial whole"),
        ("SELECT g, count(DISTINCT x) AS n FROM t GROUP BY g", True, False, True, True, "groups whole"),
        ("SELECT g, count(DISTINCT x) AS n FROM t GROUP BY g", False, False, True, True, "groups"),
        ("SELECT g, count(DISTINCT x) AS n FROM t GROUP BY g", False, False, False, True, "groups whole"),
        ("SELECT count(DISTINCT x) AS n FROM t", True, False, True, True, "whole"),
        ("SELECT DISTINCT g FROM t", False, False, True, True, "keys"),
        ("SELECT DISTINCT g FROM t", False, False, False, True, "keys whole"),
        ("SELECT DISTINCT g FROM t", False, True, True, False, "keys"),
        ("SELECT DISTINCT g FROM t", True, False, True, False, "keys whole"),
        ("SELECT DISTINCT g FROM t", True, True, True, False, "whole"),
        ("SELECT DISTINCT g FROM t LIMIT 3", False, False, True, True, "whole"),
    ],
)  # fmt: skip
def test_only_techniques_are_permitted_that_give_the_table(
    query: str, auto: bool, small: bool, few: bool, state: bool, found: str
) -> None:
    strategy = refresh_strategy(query, {"t": ["g", "x"]})
    assert permitted_techniques(strategy, auto=auto, small=small, few=few, state=state) == found.split()


def commit(uri: Path, facts: dict[str, Any] | None, rows: int = 1) -> None:
    about = CommitProperties(custom_metadata={"userMetadata": json.dumps({lake_log.METADATA: facts})})
    write_deltalake(str(uri), pa.table({"n": [1] * rows}), mode="append", commit_properties=about if facts else None)


@pytest.mark.parametrize("older", [NEWEST - 1, NEWEST, NEWEST + 1])
def test_runs_are_those_of_the_NEWEST_commits(tmp_path: Path, older: int) -> None:
    choice = RefreshCost().choose(["whole"], work(1_000))
    commit(tmp_path / "g", {"table": "g", **choice.commit_facts()})
    for number in range(1, older):
        commit(tmp_path / "g", {"table": "g"} if number % 2 else None)  # one of a former version, one of others
    cost = RefreshCost.from_table(DeltaTable(str(tmp_path / "g")), "partial")
    assert [(run.technique, run.work) for run in cost.runs] == ([("whole", work(1_000))] if older <= NEWEST else [])
    assert all(0 <= run.seconds < 60 for run in cost.runs)


def test_a_table_that_is_not_there_has_no_runs_and_is_told_in_words() -> None:
    assert list(RefreshCost.from_table(None, "partial").runs) == []
    choice = refresh_cost.TechniqueChoice("whole", {"partial": 2.04, "whole": 1.0}, work(1), 0)
    assert str(choice) == "some 1.0 s by whole (by 2.0 s by partial)"


def test_a_table_of_keys_is_recomputed_where_few_keys_have_all_of_its_rows() -> None:
    """Overwriting a million rows takes seconds; to find and replace as many by five keys takes a minute."""
    cost = RefreshCost.from_table(None, "keys")
    few_rows = Work(changed=1_000, all=1_000_000, held=1_000_000, touched=1_000)
    all_rows = Work(changed=1_000, all=1_000_000, held=1_000_000, touched=1_000_000)
    assert cost.choose(["keys", "whole"], few_rows).technique == "keys"
    assert cost.choose(["keys", "whole"], all_rows).technique == "whole"


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("times", "technique"), [(0.99, "whole"), (1.0, "whole"), (1.01, "groups")])
def test_a_full_recompute_that_no_run_tells_of_is_tried_within_REACH(times: float, technique: Technique) -> None:
    batch = Work(changed=0, all=round(times * TRIAL_FACTOR * 1_000_000), held=9_000_000, touched=1_000_000)
    untried = RefreshCost([ran("groups", batch, 10.0)])
    assert untried.choose(["groups", "whole"], batch).technique == technique
    assert RefreshCost().choose(["groups", "whole"], batch).technique == "groups"  # its first run is no run to spare
    tried = RefreshCost([ran("groups", batch, 10.0), ran("whole", batch, 10.0 * times * TRIAL_FACTOR)])
    assert tried.choose(["groups", "whole"], batch).technique == "groups"


@pytest.mark.usefixtures("plain")
def test_state_is_not_left_behind_for_a_try() -> None:
    batch = Work(changed=1_000_000, all=2_000_000, held=1_000_000, touched=1_000_000)
    cost = RefreshCost([ran("partial", batch, 10.0)])
    assert cost.choose(["partial", "groups", "whole"], batch).technique == "partial"


def test_a_first_load_tells_what_the_rows_cost_that_it_wrote(tmp_path: Path) -> None:
    """It held none of them before, so all of its seconds would be those of any batch, however small."""
    commit(tmp_path / "g", RefreshCost().choose(["whole"], work(9, 3, held=0)).commit_facts(), rows=7)
    commit(tmp_path / "g", RefreshCost().choose(["groups"], work(9, 3, held=2)).commit_facts(), rows=7)
    commit(tmp_path / "g", RefreshCost().choose(["whole"], work(9, 3, held=12)).commit_facts(), rows=7)
    cost = RefreshCost.from_table(DeltaTable(str(tmp_path / "g")), "partial")
    assert [run.work.held for run in cost.runs] == [12, 2, 7]
    assert not RefreshCost.from_table(DeltaTable(str(tmp_path / "g")), "keys").choose(["keys"], work(1)).regret


OF_OTHER_VERSIONS: list[Any] = [
    "none", 7, [], {}, {"technique": "whole"}, {"technique": "whole", "began": None, "rows": {}},
    {"technique": "whole", "began": 0, "rows": {"changed": 1}},
    {"technique": "whole", "began": 0, "rows": {"changed": 1, "all": 1, "held": "many", "touched": 1}},
    {"technique": "by a view", "began": 0, "rows": {"changed": 1, "all": 1, "held": 1, "touched": 1}},
    {"technique": ["whole"], "began": 0, "rows": {"changed": 1, "all": 1, "held": 1, "touched": 1}},
]  # fmt: skip


@pytest.mark.parametrize("facts", OF_OTHER_VERSIONS)
def test_a_cost_that_another_version_recorded_is_no_run(tmp_path: Path, facts: Any) -> None:
    commit(tmp_path / "g", {"cost": facts})
    assert not RefreshCost.from_table(DeltaTable(str(tmp_path / "g")), "partial").runs


def test_a_cost_with_more_or_less_than_is_read_is_a_run(tmp_path: Path) -> None:
    rows = {"changed": 1, "all": 2, "held": 3, "touched": 1, "written": 9}
    commit(tmp_path / "g", {"cost": {"technique": "groups", "began": 0, "rows": rows, "estimates": "none"}})
    [run] = RefreshCost.from_table(DeltaTable(str(tmp_path / "g")), "partial").runs
    assert (run.technique, run.work, run.estimates, run.regret) == ("groups", Work(1, 2, 3, 1), {}, 0.0)
