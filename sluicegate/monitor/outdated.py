"""Tables whose stored rows another definition made than today's, and what brings them up to date. No data is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluicegate.console import quantity
from sluicegate.flow.definitions import former_definition
from sluicegate.flow.model import ProgressKind

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.lake.table import Tables
    from sluicegate.monitor.plan import Pending, TableWork


@dataclass(frozen=True)
class Outdated:
    """A table with rows of a former definition.

    Attributes:
        table: its name.
        rows: number of its rows, of which none has to differ.
        part: whether only some of them may be of a former definition, as later batches were made by today's.
        by_itself: whether the next run brings all of them up to date.
        commands: the commands that do, the first for all rows; empty if the next run does.
        reason: what makes its rows incomparable with those of today's definition; empty if they go together.
        compares: whether the next run that takes in records compares types that only Spark knows.
    """

    table: str
    rows: int
    part: bool = False
    by_itself: bool = False
    commands: tuple[str, ...] = ()
    reason: str = ""
    compares: bool = False

    def facts(self) -> dict[str, Any]:
        """Return the JSON facts."""
        facts = {"rows": self.rows, "part": self.part, "by_itself": self.by_itself, "commands": list(self.commands)}
        return facts | ({"why": self.reason} if self.reason else {})

    def __str__(self) -> str:
        """Say what is outdated and what to do."""
        of = f"its {quantity(self.rows, 'row')} still follow"
        if self.part:
            of = f"some of its {quantity(self.rows, 'row')} may still follow"
        since = ""
        if self.reason:
            since = f", since {self.reason}"
        if self.by_itself:
            return f"{self.table}: {of} a former definition; the next run does a full refresh{since}"
        if self.reason:
            return f"{self.table}: {of} a former definition, which the next run refuses{since}: `{self.commands[0]}`"
        first, *more = (f"`{command}`" for command in self.commands)
        alternative = ""
        if more:
            alternative = f"; {' or '.join(more)} does so in part"
        types = ""
        if self.compares:
            types = "; if a column type changed, the run rebuilds the table"
        return (
            f"{self.table}: {of} a former definition, which a run does not change:"
            f" {first} reprocesses them{alternative}{types}"
        )


def find_outdated(pipeline: Pipeline, waiting: Pending, opened: Tables) -> dict[str, Outdated]:
    """Return the tables of silver and gold that have rows of a former definition, by name.

    Bronze is left out: its rows are the files as they were read, and ``sluicegate reset`` reads them again.
    """
    stale_tables = (_outdated_table(pipeline, work, opened) for work in waiting.tables if work.layer != "bronze")
    return {stale.table: stale for stale in stale_tables if stale is not None}


def _outdated_table(pipeline: Pipeline, work: TableWork, opened: Tables) -> Outdated | None:
    if work.problem is not None:
        return None
    handle, name = opened[work.flow.target], work.table
    last = handle.last_own_commit
    if last is None or not handle.rows:
        return None
    if former_definition.needs_full_refresh(work.flow, last):
        return Outdated(name, handle.rows, by_itself=True)
    table = pipeline.silver.get(name)
    if table is None or not former_definition.has_former_rows(table, last, work.progress.streams):
        return None
    part = last.info.silver.mixed and last.info.definition == table.fingerprint
    work_progress = work.progress
    if work_progress.kind == ProgressKind.FULL_REFRESH:
        refused = tuple(filter(None, [work_progress.command]))
        return Outdated(name, handle.rows, part, not refused, refused, work_progress.why)
    commands = [f"sluicegate replay {pipeline.name} {name} --everything"]
    if table.event_time:
        commands.append(f"sluicegate run {pipeline.name} --from DAY --to NEXT_DAY")
    return Outdated(name, handle.rows, part, commands=tuple(commands), compares=not part)
