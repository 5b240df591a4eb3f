"""Estimate the cost of a gold refresh by technique, in seconds, and choose one for a batch.

An estimate has a fixed part and a part for the rows, at rates that were measured once (``RATES``). Two factors, one for
each part, are fitted to the table's former runs, whose commits record technique, row counts and start. For a technique
that has not been used yet, the factors of the table's other runs are used. So that these do not rule out a full
recompute for good, it is tried if no run tells of it and its estimate is low (``TRIAL_FACTOR``).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from sluicegate.lake import log
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from sluicegate.spark_sql.refresh.strategy import RefreshStrategy


class Technique(StrEnum):
    """How one batch of a gold table is made; the values are in commits and outputs.

    ``AFFECTED_GROUPS`` and ``FULL_RECOMPUTE`` leave the state behind as it is, and it cannot be used before a restart.

    Attributes:
        INCREMENTAL: row deltas are applied to the aggregate state.
        RESTART: state and table are made of all rows.
        AFFECTED_GROUPS: the query over all rows of the affected groups.
        AFFECTED_KEYS: the rows of the affected keys of the query.
        FULL_RECOMPUTE: the query over all rows.
    """

    INCREMENTAL = "partial"
    RESTART = "restart"
    AFFECTED_GROUPS = "groups"
    AFFECTED_KEYS = "keys"
    FULL_RECOMPUTE = "whole"


# Techniques that leave the aggregate state up to date.
WITH_STATE = (Technique.INCREMENTAL, Technique.RESTART)

# Another technique than the last run's has to be estimated at less than this part of its seconds, so that two that cost
# nearly the same do not take turns.
MARGIN = 0.8

# Up to this many times the lowest estimate, a full recompute is tried if none of the ``NEWEST`` runs tells its cost.
TRIAL_FACTOR = 3.0

# Commits of the table that are looked at for former runs: older ones tell of other tables and other machines.
NEWEST = 20

# Bounds of a factor, lest one strange run decides for all.
LEAST = 0.05
MOST = 20.0

# Runs of a technique from which on their median counts, however far beyond ``MOST`` it is.
OWN_RUNS = 3


@dataclass(frozen=True)
class Rates:
    """Seconds of one technique: for any batch, and for a million rows of each kind.

    Attributes:
        fixed: of any batch.
        all: rows of the tables that the query reads.
        changed: row deltas.
        touched: rows of the table that may change.
        held: rows of the table.
        of_groups: rows of the affected groups.
    """

    fixed: float
    all: float = 0.0
    changed: float = 0.0
    touched: float = 0.0
    held: float = 0.0
    of_groups: float = 0.0


# Measured by `bench/refresh.py` on two cores; only how they relate to each other counts once a table has had some runs.
# To recompute a table of groups means to compare all rows by their keys and merge those that differ.
RATES: Mapping[Technique, Rates] = {
    Technique.INCREMENTAL: Rates(3.0, changed=6.0, touched=80.0),
    Technique.RESTART: Rates(2.0, all=1.0, held=100.0),
    Technique.AFFECTED_GROUPS: Rates(1.0, all=0.5, changed=0.5, touched=80.0, of_groups=0.8),
    Technique.FULL_RECOMPUTE: Rates(0.8, all=0.7, held=80.0),
}

# The same of a table whose rows are found by keys. To recompute it means to compare all rows, and to merge few that
# differ or overwrite the table. Rows of a key may be in any file, and a merge writes its other rows again.
RATES_OF_KEYS: Mapping[Technique, Rates] = {
    Technique.AFFECTED_KEYS: Rates(1.6, all=0.5, changed=1.0, touched=45.0, held=3.0, of_groups=0.4),
    Technique.FULL_RECOMPUTE: Rates(2.0, all=0.7, held=3.0),
}


def rates_of(kind: StrategyKind) -> Mapping[Technique, Rates]:
    """Return the rates of the techniques for a refresh strategy."""
    if kind == StrategyKind.AFFECTED_KEYS:
        return RATES_OF_KEYS
    return RATES


@dataclass(frozen=True)
class Work:
    """Row counts that determine the cost of a batch.

    Attributes:
        changed: row deltas; an update is two.
        all: rows of the tables that the query reads.
        held: rows of the gold table before the batch.
        touched: rows of the table that may change, new ones included; an upper bound.
    """

    changed: int
    all: int
    held: int
    touched: int

    def seconds_by_part(self, rates: Rates) -> tuple[float, float]:
        """Return the seconds of a technique by its rates: for any batch, and for these rows."""
        of_groups = self.all * min(self.touched / max(self.held, 1), 1.0)
        rows = (rates.all * self.all + rates.changed * self.changed + rates.touched * self.touched
                + rates.held * self.held + rates.of_groups * of_groups)  # fmt: skip
        return rates.fixed, rows / 1_000_000


@dataclass(frozen=True)
class FormerRun:
    """Former run of the table, from its commit.

    Attributes:
        technique: technique of the run.
        work: row counts of the run; a run that wrote all rows is taken to have held at least these.
        seconds: seconds from the choice to the commit.
        estimates: estimates at that time.
        regret: ``RefreshCost.regret`` before it.
    """

    technique: Technique
    work: Work
    seconds: float
    estimates: Mapping[str, float] = field(default_factory=dict)
    regret: float = 0.0


@dataclass(frozen=True)
class TechniqueChoice:
    """Chosen technique of a batch, and why.

    Attributes:
        technique: the technique.
        estimates: seconds of each permitted technique, and of ``partial`` even without state.
        work: the row counts.
        regret: see ``RefreshCost.regret``; each commit records it, since it may cover many runs.
        began: time of the choice, in milliseconds since 1970 UTC.
    """

    technique: Technique
    estimates: Mapping[Technique, float]
    work: Work
    regret: float = 0.0
    began: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def facts(self) -> dict[str, Any]:
        """Return the choice as JSON facts."""
        estimates = {technique: round(seconds, 2) for technique, seconds in self.estimates.items()}
        return {"technique": self.technique, "estimated": estimates[self.technique], "estimates": estimates,
                "rows": asdict(self.work)}  # fmt: skip

    def commit_facts(self) -> dict[str, Any]:
        """Return the facts for the commit, from which ``measured_seconds`` gets the duration."""
        return {"cost": {**self.facts(), "regret": round(self.regret, 2), "began": self.began}}

    def __str__(self) -> str:
        rivals = [f"{seconds:.1f} s by {name}" for name, seconds in self.estimates.items() if name != self.technique]
        sentence = f"some {self.estimates[self.technique]:.1f} s by {self.technique}"
        if rivals:
            return f"{sentence} (by {', '.join(rivals)})"
        return sentence


def permitted_techniques(
    strategy: RefreshStrategy, *, auto: bool, small: bool, few: bool, state: bool
) -> list[Technique]:
    """Return the techniques that are correct and permitted by the definition.

    Args:
        strategy: the refresh strategy.
        auto: whether ``refresh`` leaves the choice open, and does not require state.
        small: whether the tables read are too small to keep state.
        few: whether few rows changed, so that existing state is not rebuilt.
        state: whether there is aggregate state from which changes can be followed.
    """
    if small and auto:
        return [Technique.FULL_RECOMPUTE]
    if strategy.kind == StrategyKind.AFFECTED_KEYS:
        return _add_whole([Technique.AFFECTED_KEYS], auto=auto, few=few)
    if strategy.kind == StrategyKind.FULL_RECOMPUTE or strategy.kind == StrategyKind.STREAM or strategy.grouped is None:
        return [Technique.FULL_RECOMPUTE]
    if strategy.kind == StrategyKind.AFFECTED_GROUPS:
        return _add_whole([Technique.AFFECTED_GROUPS], auto=auto, few=few)
    techniques: list[Technique] = []
    if state:
        techniques.append(Technique.INCREMENTAL)
    if not state or not few:
        techniques.append(Technique.RESTART)
    if not auto:
        return techniques
    if strategy.grouped.is_locatable and not strategy.grouped.one_row:
        techniques.append(Technique.AFFECTED_GROUPS)
    return [*techniques, Technique.FULL_RECOMPUTE]


def _add_whole(techniques: list[Technique], *, auto: bool, few: bool) -> list[Technique]:
    """Add ``whole`` to techniques unless ``refresh`` forbids it and few rows changed."""
    if few and not auto:
        return techniques
    return [*techniques, Technique.FULL_RECOMPUTE]


def measured_seconds(commit: log.Commit) -> float | None:
    """Return the seconds between choice and commit; None without a choice, or with different clocks."""
    began = _cost(commit).get("began")
    if not isinstance(began, int):
        return None
    milliseconds = commit.timestamp - began
    return milliseconds / 1000 if milliseconds >= 0 else None  # a server that commits may have another clock


@dataclass(frozen=True)
class RefreshCost:
    """Costs of one gold table.

    Attributes:
        runs: its former runs, newest first, by techniques that have rates.
        rates: rates of the techniques.
    """

    runs: Sequence[FormerRun] = ()
    rates: Mapping[Technique, Rates] = field(default_factory=lambda: RATES)

    @classmethod
    def from_table(cls, table: DeltaTable | None, kind: StrategyKind) -> RefreshCost:
        """Read the costs from the commits of a table with some refresh strategy, which may not exist yet."""
        rates = rates_of(kind)
        if table is None:
            return cls(rates=rates)
        runs = map(_former_run, log.commits(table, NEWEST))
        return cls([run for run in runs if run is not None and run.technique in rates], rates)

    def choose(self, permitted: Collection[Technique], work: Work) -> TechniqueChoice:
        """Choose the technique with the lowest estimate, with an advantage for the last run's.

        Args:
            permitted: techniques that give the right table; with ``restart`` and without ``partial`` if the state has
                to be rebuilt.
            work: the row counts.
        """
        estimates = {name: self.seconds(name, work) for name in self.rates if name in permitted}
        if Technique.RESTART in permitted and len(permitted) > 1:
            estimates.setdefault(Technique.INCREMENTAL, self.seconds(Technique.INCREMENTAL, work))
        costs = {name: seconds for name, seconds in estimates.items() if name in permitted}
        stateless = [costs[name] for name in costs if name != Technique.RESTART]
        if Technique.RESTART in costs and Technique.INCREMENTAL not in permitted and stateless:
            # A restart pays by what comes after it, which nobody knows. So it is bought once the batches without state
            # have cost as much more as it does: at worst twice of what was best.
            costs[Technique.RESTART] -= self.regret + max(min(stateless) - estimates[Technique.INCREMENTAL], 0.0)
        if self._is_worth_a_try(Technique.FULL_RECOMPUTE, costs):
            return TechniqueChoice(Technique.FULL_RECOMPUTE, estimates, work, self.regret)
        return TechniqueChoice(self._stable_technique(costs), estimates, work, self.regret)

    def _is_worth_a_try(self, technique: Technique, costs: Mapping[Technique, float]) -> bool:
        """Return whether no former run tells the cost of a technique, and its estimate is low enough for a trial.

        A table with aggregate state tries none: the state would be left behind.
        """
        if technique not in costs or not self.runs or not {*WITH_STATE}.isdisjoint(costs):
            return False
        if any(run.technique == technique for run in self.runs):
            return False
        return costs[technique] <= TRIAL_FACTOR * min(costs.values())

    def _stable_technique(self, costs: Mapping[Technique, float]) -> Technique:
        """Return the cheapest technique, unless the usual one costs nearly the same."""
        best = min(costs, key=lambda name: costs[name])
        usual = self._usual_technique(costs)
        if usual is None or costs[best] < MARGIN * costs[usual]:
            return best
        return usual

    def _usual_technique(self, costs: Mapping[Technique, float]) -> Technique | None:
        """Return the technique that uses what the last run left; None if it is not among them."""
        last = None
        if self.runs:
            last = self.runs[0].technique
        if last == Technique.RESTART:
            last = Technique.INCREMENTAL
        if last in costs:
            return last
        return next((name for name in self.rates if name in costs and name != Technique.RESTART), None)

    @property
    def has_state(self) -> bool:
        """Whether the last run left aggregate state, as far as the commits tell."""
        return not self.runs or self.runs[0].technique in WITH_STATE

    @cached_property
    def regret(self) -> float:
        """Seconds lost by the runs since usable state existed, against using it."""
        if not self.runs or self.runs[0].technique in WITH_STATE:
            return 0.0
        last = self.runs[0]
        return last.regret + max(last.seconds - last.estimates.get(Technique.INCREMENTAL, last.seconds), 0.0)

    def seconds(self, technique: Technique, work: Work) -> float:
        """Return the estimate for a batch."""
        fixed, rows = work.seconds_by_part(self.rates[technique])
        runs = [run for run in self.runs if run.technique == technique]
        of_fixed, of_rows = self._fitted(runs, self._overall_factors)
        return of_fixed * fixed + of_rows * rows

    @cached_property
    def _overall_factors(self) -> tuple[float, float]:
        """Factors of this table and machine, independent of the technique."""
        return self._fitted(self.runs, (1.0, 1.0))

    def _fitted(self, runs: Sequence[FormerRun], before: tuple[float, float]) -> tuple[float, float]:
        """Fit the factors of the fixed and the per-row part by least squares of relative errors.

        Args:
            runs: the runs that the factors should explain.
            before: initial factors, which count as one run.
        """
        ff, fr, rr = 1.0, 0.0, 1.0
        ft, rt = before
        factors = [run.seconds / sum(run.work.seconds_by_part(self.rates[run.technique])) for run in runs]
        most = MOST
        if len(runs) >= OWN_RUNS:
            most = max(MOST, median(factors))
        for run in runs:
            fixed, rows = run.work.seconds_by_part(self.rates[run.technique])
            f, r, seconds = fixed / (fixed + rows), rows / (fixed + rows), run.seconds / (fixed + rows)
            ff, fr, rr = ff + f * f, fr + f * r, rr + r * r
            ft, rt = ft + f * seconds, rt + r * seconds
        determinant = ff * rr - fr * fr
        of_fixed, of_rows = (ft * rr - rt * fr) / determinant, (rt * ff - ft * fr) / determinant
        return min(max(of_fixed, LEAST), most), min(max(of_rows, LEAST), most)


def _cost(commit: log.Commit) -> Mapping[str, Any]:
    """Return what a commit records of its cost; nothing if it has none, or in another form."""
    cost = commit.info.gold.cost
    if isinstance(cost, dict):
        return cost
    return {}


def _former_run(commit: log.Commit) -> FormerRun | None:
    """Read a run from its commit; None if it records no cost, or one of another version in another form."""
    seconds, cost = measured_seconds(commit), _cost(commit)
    work = _work(cost.get("rows"))
    technique: Technique | None = next((name for name in Technique if name == cost.get("technique")), None)
    if seconds is None or work is None or technique is None:
        return None
    if technique in (Technique.FULL_RECOMPUTE, Technique.RESTART):
        # Such a run takes what it writes, whatever was there before.
        work = replace(work, held=max(work.held, commit.rows_written or 0))
    return FormerRun(technique, work, seconds, _numbers(cost.get("estimates")), _number(cost.get("regret")) or 0.0)


def _work(rows: Any) -> Work | None:
    """Read the row counts of a commit; None if one is missing."""
    counts = _numbers(rows)
    names = [count.name for count in fields(Work)]
    if not counts.keys() >= {*names}:
        return None
    return Work(*(int(counts[name]) for name in names))


def _numbers(facts: Any) -> dict[str, float]:
    """Return the numbers among some facts, by name."""
    if not isinstance(facts, dict):
        return {}
    numbers = {name: _number(fact) for name, fact in facts.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _number(fact: Any) -> float | None:
    if isinstance(fact, (int, float)):
        return fact
    return None
