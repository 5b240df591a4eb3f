"""Discard quarantined records with a note, or undo discards, without Spark or the lock of runs.

A discard records that a record is no longer waited for. Its evaluation is not affected: a run that evaluates the record
again, since a lookup or the table changed, may find that it passes. See ``lake/discards.py`` for what is written.
"""

from __future__ import annotations

import getpass
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sluicegate.console import quantity
from sluicegate.definition.fields import suggest_name
from sluicegate.errors import UserError, Where
from sluicegate.flow.selection import demand_silver

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from sluicegate.definition import Pipeline
    from sluicegate.lake.discards import Discarded

LONGEST_NOTE = 500
"""Characters of a note."""


@dataclass(frozen=True)
class Discard:
    """Quarantined records to discard, or discards to undo.

    Attributes:
        table: the silver table.
        rules: only records that broke one of these rules; none means any.
        note: reason, for people; not needed to undo discards.
        undo: whether to undo discards.
        only: ID of the only discard to undo; empty for all of these records.
        shown: state of the quarantine that a person has seen, from ``state``: later records are left;
            empty for the current records.
    """

    table: str
    rules: tuple[str, ...] = ()
    note: str = ""
    undo: bool = False
    only: str = ""
    shown: str = ""

    def demand(self, pipeline: Pipeline) -> None:
        """Check the request as far as possible without tables.

        Raises:
            PipelineMissing: the pipeline has no such table.
            UserError: the table is not silver, or the note is missing or too long.
        """
        demand_silver(self.table, pipeline, "have a quarantine")
        where = Where(table=self.table)
        if self.only and not self.undo:
            raise UserError("an id requires --undo", where=where, hint="omit it, or add --undo")
        if self.undo:
            return
        if not self.note:
            raise UserError(
                "a discard requires a note",
                where=where,
                hint="write why these records are discarded, without personal data",
            )
        if len(self.note) > LONGEST_NOTE:
            raise UserError(
                f"the note has {len(self.note):,} characters", where=where, hint=f"the maximum is {LONGEST_NOTE}"
            )  # fmt: skip

    def __str__(self) -> str:
        broke = ""
        if self.rules:
            broke = f" that broke {', '.join(self.rules)}"
        if not self.undo:
            return f"discards the quarantined records of {self.table}{broke}, with a note"
        return f"undoes {f'the discard {self.only}' if self.only else f'discards of records of {self.table}{broke}'}"


def to_one_line(text: str) -> str:
    """Return a note or name in one line, without invisible characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def user() -> str:
    """Return the user name of this process; empty if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def state(quarantine: DeltaTable, discards: DeltaTable | None) -> str:
    """Return the state of a quarantine and its discards: what ``Discard.shown`` takes."""
    from sluicegate.lake import tables

    text = f"{tables.table_id(quarantine)}@{quarantine.version()}"
    if discards is not None:
        text += f"/{discards.version()}"
    return text


@dataclass(frozen=True)
class Chosen:
    """Effect of a discard, for a person to confirm.

    Attributes:
        request: the discard.
        uri: the table of discards.
        rows: the quarantined rows to discard (``lake.discards.quarantined_rows``); to undo, the rows that wait again.
        discards: the discards to undo; none when discarding.
        rules: row counts by broken rule.
    """

    request: Discard
    uri: str
    rows: pa.Table
    discards: list[Discarded]
    rules: dict[str, int]

    @property
    def records(self) -> int:
        """Number of rows."""
        return int(self.rows.num_rows)

    def sentences(self) -> list[str]:
        """Describe the discard in lines for people."""
        single, broke = self.records == 1, [f"  {rule}: {count:,}" for rule, count in self.rules.items()]
        count = quantity(self.records, "row") if self.records else "no rows"
        rows = f"{count} of the quarantine of {self.request.table}"
        if not self.request.undo:
            return [f"{rows} {'waits' if single else 'wait'}", *broke]
        lines_of_discards = [
            f"  {it.id}: {it.time:%Y-%m-%d %H:%M} UTC by {it.by or '?'}, {it.records:,} of the rows: {it.note}"
            for it in self.discards
        ]
        if lines_of_discards:
            return [f"{rows} {'is' if single else 'are'} discarded", *lines_of_discards, *broke]
        return ["no discard"]

    def facts(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "table": self.request.table, "undo": self.request.undo, "records": self.records, "rules": self.rules,
            "discards": list(map(asdict, self.discards)),
        }  # fmt: skip

    def carry_out(self, by: str, discard: str) -> int:
        """Write the discard in one commit, if there is something to do.

        Args:
            by: user who discards or undoes.
            discard: ID of the discard.

        Returns:
            the number of newly discarded rows; to undo, of rows that were discarded.

        Raises:
            SluicegateError: other programs keep discarding records of the table.
        """
        from sluicegate.lake import discards

        by = to_one_line(by)  # Airflow and the system take any text for a name
        if self.request.undo:
            return discards.take_back(self.uri, self._confirmed_mask, by)
        return discards.add(self.uri, self.rows, discard, by, self.request.note)

    def _confirmed_mask(self, rows: pa.Table) -> Any:
        """Return a mask of the discards to undo, without those added after the confirmation."""
        import pyarrow as pa
        import pyarrow.compute as pc

        those = pa.array([discard.id for discard in self.discards], pa.string())
        return pc.and_(_discard_mask(rows, self.request), pc.is_in(rows["discard"], value_set=those))


def find_records(pipeline: Pipeline, request: Discard) -> Chosen:
    """Find the records of a discard in the current tables. Nothing is written.

    Raises:
        PipelineMissing: the pipeline has no such table.
        UserError: the table is not silver, the note is missing or too long, no record broke the rule, there is no
            such discard, or the state that was shown is no longer known.
        PipelineRenamed: the pipeline was renamed, or is being renamed.
        TargetConflict: the tables belong to another target.
    """
    request.demand(pipeline)
    import pyarrow.compute as pc

    from sluicegate.lake import discards, tables
    from sluicegate.lake.exclusion import renamed, target_ownership
    from sluicegate.lake.layout import Lake

    lake = Lake(pipeline.settings.lake, pipeline.name)
    renamed.demand_current(lake)
    target_ownership.demand_ours(lake, pipeline.settings.target)
    quarantine, log = map(tables.delta_table, (lake.quarantine(request.table), lake.discards(request.table)))
    quarantined, recorded = discards.quarantined_rows_if_any(quarantine), discards.recorded_discards(log)
    if request.undo:
        mask = _discard_mask(recorded, request)
        taken, unmatched = recorded.filter(mask), recorded.filter(pc.invert(mask))
        if request.only and not taken.num_rows:
            hint = "it was already undone; `--undo --dry-run` lists the discards on record"
            raise UserError(f"unknown discard {request.only}", where=Where(table=request.table), hint=hint)
        rows = discards.waiting_rows(quarantined.take(discards.match_discards(quarantined, recorded)[0]), unmatched)
        return Chosen(
            request,
            lake.discards(request.table),
            rows,
            discards.list_discards(quarantined, taken),
            discards.count_by_rule(rows),
        )
    rows = discards.violating_rows(quarantined, request.rules)
    _demand_rules(pipeline, request, discards.count_by_rule(rows))
    if request.shown and quarantine is not None:
        rows = _confirmed_rows(request, quarantine, rows)
    rows = discards.waiting_rows(rows, recorded)
    return Chosen(request, lake.discards(request.table), rows, [], discards.count_by_rule(rows))


def _discard_mask(rows: pa.Table, request: Discard) -> Any:
    """Return a mask of the discards that a request undoes."""
    import pyarrow.compute as pc

    from sluicegate.lake import discards

    mask = discards.breach_mask(rows, request.rules)
    if request.only:
        mask = pc.and_(mask, pc.equal(rows["discard"], request.only))
    return mask


def _demand_rules(pipeline: Pipeline, request: Discard, broken: dict[str, int]) -> None:
    """Check that the table has, or had at quarantine, the rules of a request.

    Raises:
        UserError: a rule is unknown.
    """
    expectations = pipeline.silver[request.table].expectations
    for rule in request.rules:
        if rule not in expectations and rule not in broken:
            hint = suggest_name(rule, [*expectations, *broken]) or f"its rules: {', '.join(expectations) or 'none'}"
            where = Where(table=request.table)
            raise UserError(f"unknown rule {rule} of {request.table}", where=where, hint=hint)


def _confirmed_rows(request: Discard, quarantine: DeltaTable, rows: pa.Table) -> pa.Table:
    """Return the rows that the person was shown.

    Raises:
        UserError: the state that was shown is no longer available.
    """
    from deltalake.exceptions import DeltaError

    from sluicegate.lake import discards, tables

    identity, _, version = request.shown.partition("/")[0].rpartition("@")
    if identity == tables.table_id(quarantine) and version == str(quarantine.version()):
        return rows
    try:
        # ``int`` takes more texts than these; and a version that is far from any keeps delta-rs busy for hours.
        is_number = version.isascii() and version.isdecimal() and len(version) <= len(str(quarantine.version()))
        if identity != tables.table_id(quarantine) or not is_number or int(version) > quarantine.version():
            raise LookupError(request.shown)
        shown_version = tables.delta_table(quarantine.table_uri, int(version))
        return discards.common_rows(rows, discards.quarantined_rows_if_any(shown_version))
    except (DeltaError, LookupError, OSError) as error:
        raise UserError(
            f"the quarantine of {request.table} has changed since it was shown, and that version is gone",
            where=Where(table=request.table),
            hint="nothing was discarded: review the quarantine again, and discard its current records",
        ) from error
