"""Check that the tables exist which a table follows, joins, or reads for a rule. No Spark."""

from __future__ import annotations

from sluicegate.errors import LandingMissing, Where
from sluicegate.flow.model import Flow, name_of
from sluicegate.flow.policies import CopyPolicy
from sluicegate.flow.several import several_progress
from sluicegate.lake.table import Tables
from sluicegate.schema.columns import data_columns


def missing_source_error(flow: Flow) -> LandingMissing:
    """Error for a source that is not there."""
    return LandingMissing(
        f"no Delta table at {flow.source}",
        where=Where(table=flow.table, file=flow.source),
        hint="correct its path, or create the table",
    )


def why_blocked(flow: Flow, opened: Tables) -> str:
    """Return why a flow waits for other tables; empty if it does not."""
    return _no_source(flow, opened) or _no_input(flow, opened) or _no_treated_columns(flow, opened)


def _no_source(flow: Flow, opened: Tables) -> str:
    """Return the reason if none of the flow's sources exists yet."""
    if any(opened[uri].delta for uri in flow.sources):
        return ""
    if not flow.policy.rebuildable:
        return "nothing has been read yet"
    return f"{' and '.join(map(name_of, flow.sources))} has no rows yet"


def _no_input(flow: Flow, opened: Tables) -> str:
    """Return the reason if a table that the flow joins, or that a rule reads, does not exist yet."""
    for name, uri in flow.inputs.items():
        if opened[uri].delta is None:
            return f"it joins {name}, which has no rows yet"
    for name, uri in flow.references.items():
        if opened[uri].delta is None:
            return f"one of its rules reads {name}, which has no rows yet"
    return ""


def _no_treated_columns(flow: Flow, opened: Tables) -> str:
    """Return the reason if columns to be de-identified may still appear, by a flow whose source has no rows."""
    source = opened[flow.source]
    if not isinstance(flow.policy, CopyPolicy) or source.delta is None:
        return ""
    columns = data_columns({field.name for field in source.delta.schema().fields})
    lacking, flows = several_progress.missing_columns(flow, source, columns)
    if not lacking or not flows:
        return ""
    return (
        f"{name_of(flow.source)} has no column {', '.join(lacking)} yet, which must be de-identified: its flow"
        f" {flows[0]} may add it, and waits for its own source (declared in `schema`, the column exists at once)"
    )
