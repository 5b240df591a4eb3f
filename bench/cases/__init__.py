"""All cases, in the order in which they are measured and shown."""

from __future__ import annotations

from bench.case import Case
from bench.cases.airflow import DagOverhead
from bench.cases.continuous import ContinuousBatch
from bench.cases.files import Files
from bench.cases.gold import Groups, HistoryGold
from bench.cases.known import LedgerSize
from bench.cases.many_tables import ManyTables
from bench.cases.rows import RowsBronze, RowsGold, RowsSilver
from bench.cases.silver import HistorySilver, IntervalOfADay

ALL: tuple[type[Case], ...] = (
    Files, RowsBronze, RowsSilver, RowsGold, HistorySilver, HistoryGold, LedgerSize, IntervalOfADay, Groups,
    ContinuousBatch, ManyTables, DagOverhead,
)  # fmt: skip
