"""Find changes of a definition between runs after which stored rows cannot be compared with new ones.

Stored rows are compared with new ones by keys, by sequence and column by column. Rows with other keys, another sequence
or other types cannot be compared, or would be cut to the stored type. Silver is a function of bronze, so such a table
gets a full refresh without a request, in one commit. After any other change stored rows stay comparable: the run
continues, and reports that rows of the former definition exist. docs/howto/editing-a-definition.md lists all changes,
and what the next run does about each.

Keys, sequence and SCD type are known without Spark, as each commit of a silver table records those of its rows. So are
types that the definition states (``flow/definitions/foreseen_types.py``); all others are compared by the run, since
they need Spark's analysis of the query (``silver/columns/changed_columns.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sluicegate.definition.tables.silver_flow import SilverFlow
from sluicegate.errors import SchemaMismatch, Where
from sluicegate.flow.definitions import foreseen_types
from sluicegate.lake.commits.commit_info import CommitInfo

if TYPE_CHECKING:
    from sluicegate.definition import SilverTable
    from sluicegate.lake.log import Commit
    from sluicegate.spark_sql.query import Query


@dataclass(frozen=True)
class StoredRows:
    """Definition of a silver table, as far as stored rows depend on it.

    Attributes:
        table: the definition.
        command: the command for its full refresh.
    """

    table: SilverTable
    command: str

    def facts(self) -> dict[str, Any]:
        """Return the facts for a commit: keys and sequence of the rows."""
        changes = self.table.changes
        return {
            "keys": list(self._keys),
            "sequence_by": self._sequence_by,
            "scd_type": changes.stored_as_scd_type if changes else 1,
            "snapshots": self.table.apply_changes_from_snapshot is not None,
            "expressions": {flow: self._expressions(flow) for flow in self.table.makers},
        }

    @property
    def _keys(self) -> Sequence[str]:
        if self.table.changes:
            return self.table.changes.keys
        return self.table.keys

    @property
    def _sequence_by(self) -> str | None:
        if self.table.changes:
            return self.table.changes.sequence_by
        return self.table.sequence_by

    def why_incomparable(self, last: Commit, columns: Mapping[str, str]) -> str:
        """Return why stored rows require a full refresh, as they cannot be compared with new ones; empty if they can.

        Args:
            last: the newest commit of ours in the table's log.
            columns: types of the table's columns, as in ``foreseen_types.stored_types``.
        """
        info, today = last.info, self.facts()
        if self._is_table_edited(info) and (types := foreseen_types.type_change(self.table, columns)):
            return types
        stored = info.silver.stored
        if stored is None:
            return self._unrecorded_keys(info)
        return (
            _key_change(stored.get("keys", []), today["keys"])
            or _sequence_change(stored.get("sequence_by"), today["sequence_by"])
            or _scd_change(stored, today)
            or self._branch_change(info)
            or self._expression_change(stored.get("expressions", {}), info)
        )

    def _unrecorded_keys(self, info: CommitInfo) -> str:
        """Return the reason if the last commit, of an older Sluicegate, lacks these facts and all may differ."""
        if not self.facts()["keys"] or not self._is_table_edited(info):
            return ""
        return "its definition changed, and its last commit does not record the keys of its rows"

    def _is_table_edited(self, info: CommitInfo) -> bool:
        """Return whether the definition differs from that of a commit."""
        return info.definition not in (None, self.table.fingerprint)

    def _is_flow_edited(self, flow: str, info: CommitInfo) -> bool:
        """Return whether the definition of a flow differs from that of a commit; the table's own without flows."""
        if not flow:
            return self._is_table_edited(info)
        today = self.table.flows_or_branches[flow].fingerprint
        return info.silver.definitions.get(flow, today) != today

    def _branch_change(self, info: CommitInfo) -> str:
        """Return the reason if branches of a UNION ALL now have names, and so rows, of former others."""
        if self.table.flows:
            return ""
        recorded = info.streams or {}
        for flow, branch in self.table.flows_or_branches.items():
            if flow not in recorded or not self._is_flow_edited(flow, info):
                continue
            source = recorded[flow]["source_id"]
            before = {name for name, offset in recorded.items() if offset["source_id"] == source}
            today = {name for name, other in self.table.flows_or_branches.items() if other.stream == branch.stream}
            if before != today:
                return f"branches of its UNION ALL were added or removed before others over {branch.stream}"
        return ""

    def _expression_change(self, before: Mapping[str, Mapping[str, str]], info: CommitInfo) -> str:
        """Return the reason if the expression of a key or of the sequence changed.

        Expressions are compared for edited definitions only: another version of Sluicegate may write them differently.
        """
        for flow in self.table.makers:
            if flow not in before or not self._is_flow_edited(flow, info):
                continue
            for column, text in self._expressions(flow).items():
                if before[flow].get(column, text) != text:
                    return f"the expression of {column}, by which its rows are compared, changed"
        return ""

    def _expressions(self, flow: str) -> dict[str, str]:
        """Return the expression of each key and of the sequence in the query of a flow."""
        maker = self.table.makers[flow]
        if maker.query is None:
            return {}
        first = None
        if isinstance(maker, SilverFlow):
            first = maker.first_branch
        names = None
        if first is not None:
            names = first.outputs
        columns = filter(None, [*self._keys, self._sequence_by])
        return {column: _expression_text(maker.query, column, names) for column in columns}


def _expression_text(query: Query, column: str, names: Sequence[str] | None) -> str:
    """Return the expression of a column; empty for a column of the stream that keeps its name, as by a star."""
    node = query.output(column, names)
    if node is None:
        return ""
    of_stream = isinstance(node, exp.Column) and node.table.lower() in ("", (query.stream_alias or "").lower())
    if of_stream and node.name.lower() == column.lower():
        return ""
    return node.sql("spark")


def refused_refresh_error(table: str, reason: str, lookups: str, command: str) -> SchemaMismatch:
    """Return the error for a full refresh that would change rows beyond the change of the definition.

    Args:
        table: the table.
        reason: why it needs a full refresh.
        lookups: names of its lookups with ``as_of_run``.
        command: the command that does the full refresh.
    """
    return SchemaMismatch(
        f"{table} needs a full refresh: {reason}",
        where=Where(table=table),
        cause=f"its rows keep the values that {lookups} had in the run that wrote them (as_of_run), and a full refresh "
        "evaluates all records with today's values, so it only runs on request; nothing was written",
        hint=f"undo the change of the definition, or run `{command}`",
    )


def _key_change(before: list[str], today: list[str]) -> str:
    if [key.lower() for key in before] == [key.lower() for key in today]:
        return ""
    if not before:
        return f"it now has keys, {', '.join(today)}"
    if not today:
        return f"it no longer has keys (before: {', '.join(before)})"
    return f"its keys change from {', '.join(before)} to {', '.join(today)}"


def _sequence_change(before: str | None, today: str | None) -> str:
    if (before or "").lower() == (today or "").lower():
        return ""
    if before is None:
        return f"it now has a sequence_by, {today}"
    if not today:
        return "it no longer has a sequence_by"
    return f"its sequence_by changes from {before} to {today}"


def _scd_change(before: Mapping[str, Any], today: Mapping[str, Any]) -> str:
    former, scd_type = before.get("scd_type", 1), today["scd_type"]
    if former != scd_type:
        return f"its stored_as_scd_type changes from {former} to {scd_type}"
    if bool(before.get("snapshots")) == today["snapshots"]:
        return ""
    if today["snapshots"]:
        return "its records are now snapshots"
    return "its records are no longer snapshots"
