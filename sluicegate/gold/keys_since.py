"""Find the groups or keys of a gold table that were affected since the last verification.

These are the keys of inserted and deleted rows of the query's tables, and of changed rows of the table itself. The
proof holds for all other rows: the query's result for a key depends only on rows of that key (see ``gold/affected``),
and no data file of the table was changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.console import quantity
from sluicegate.definition import GoldTable
from sluicegate.flow.batch import Batch
from sluicegate.flow.model import ProgressKind
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.flow.verification.proofs import TARGET, Proof, Proofs, states_of
from sluicegate.flow.versions_read import VersionRead, versions_read
from sluicegate.frames import changed_rows
from sluicegate.frames.record_ids import materialize
from sluicegate.gold.changed_query import ChangedQuery
from sluicegate.gold.proved_query import ProvedQuery
from sluicegate.lake import tables
from sluicegate.spark import table_reader
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind

LAYER = "gold"

SOURCE = ""
"""Name of the table that the query follows, among the tables that it reads."""


@dataclass(frozen=True)
class KeysToCompare:
    """Groups or keys whose rows are compared.

    Attributes:
        rows: distinct values of the keys, materialized.
        count: number of keys.
        names: key columns of the table.
    """

    rows: DataFrame
    count: int
    names: list[str]

    def __str__(self) -> str:
        return f"{quantity(self.count, 'value')} of {', '.join(self.names)}"


class KeysSince:
    """Changes of one table since its proof.

    Args:
        proofs: the proofs of the pipeline.
        batch: batch of all rows of the versions that the table was built from.
        table: definition of the table.
        target: the table.
    """

    def __init__(self, proofs: Proofs, batch: Batch, table: GoldTable, target: DeltaTable) -> None:
        self._proofs, self._batch, self._flow, self._table = proofs, batch, batch.flow, table
        self._target, self._query = target, ProvedQuery(batch, batch.flow.table, table)
        progress, inputs = batch.progress, batch.flow.inputs
        self._sources = {SOURCE: (batch.flow.source, progress.until)}
        self._sources |= {name: (inputs[name], version) for name, version in progress.versions.items()}
        self._states = (states_of({TARGET: target}) or {}) if proofs.are_used else {}
        self._versions = versions_read(batch.opened, self._sources) if proofs.are_used else {}
        self._recorded = {name: version.as_dict() for name, version in self._versions.items()}
        self._definition = [self._flow.fingerprint, self._flow.rules, self._flow.key]
        proof = proofs.last_proof(LAYER, self._flow.table, self._definition)
        self.proof = proof if proof is not None and self._proof_holds(proof) else None

    @property
    def is_unchanged(self) -> bool:
        """Whether neither the table nor its inputs have changed."""
        proof = self.proof
        return proof is not None and proof.states == self._states and proof.more["read"] == self._recorded

    def affected_keys(self) -> KeysToCompare | None:
        """Return the affected keys; None if all rows have to be compared, as most are affected or keys are unknown."""
        if self.proof is None or self._table.transform is not None or self.proof.more["columns"] != self._columns:
            return None
        try:
            keys = self._find_affected_keys(self.proof)
        except Exception:  # a version in between, or its change feed, is gone; or Spark does not take the plan
            return None
        if keys is None or 2 * keys.count > tables.rows(self._target):
            return None
        return keys

    def keep(self, former: Proof | None) -> None:
        """Record that the table has been proved.

        Args:
            former: the proof of the rows that were not compared; None if all were.
        """
        source = self._versions.get(SOURCE)
        if not self._states or source is None or source.entry is None:
            return
        if former is not None:
            columns = former.more["columns"]
        else:
            columns = self._columns
        more = {"read": self._recorded, "columns": columns}
        self._proofs.keep(LAYER, self._flow.table, self._definition, self._states, former, more)

    @property
    def _columns(self) -> str:
        """Columns that are read, computed and stored; empty for a function, which would have to be called.

        A column that was added to the table manually appears in no change feed.
        """
        if self._table.transform is not None:
            return ""
        return f"{self._query.columns_fingerprint} {self._target.schema().to_json()}"

    def _proof_holds(self, proof: Proof) -> bool:
        """Return whether the proof still holds for the rows that were not affected."""
        state, former_versions = proof.states[TARGET], _versions(proof)
        if not self._states or not state.is_history_of(self._target):
            return False
        if state.new_files(self._states[TARGET]) is None or former_versions.keys() != self._versions.keys():
            return False
        return all(
            former_versions[name].continues_to(version, self._batch.opened[self._sources[name][0]])
            for name, version in self._versions.items()
        )

    def _find_affected_keys(self, proof: Proof) -> KeysToCompare | None:
        """Return the keys of changed rows, of the query's tables and of the table itself."""
        state, session = proof.states[TARGET], self._batch.session
        if self._has_changes_without_feed(proof):
            return None
        own_rows = changed_rows.rows_changed_since(
            session, self._target, self._flow.target, state, self._states[TARGET]
        )
        of_inputs = self._input_keys(_versions(proof))
        if own_rows is None or of_inputs is None or not self._query.keys:
            return None
        columns = zip(self._query.keys, of_inputs.columns, strict=True)
        own_keys = own_rows.select(*[F.col(quote_name(key)).alias(name) for key, name in columns])
        if [field.dataType for field in own_keys.schema] != [field.dataType for field in of_inputs.schema]:
            return None  # rows are found by keys of their types
        keys = materialize(of_inputs.unionByName(own_keys).distinct(), few=False)
        return KeysToCompare(keys, keys.count(), self._query.keys)

    def _has_changes_without_feed(self, proof: Proof) -> bool:
        """Return whether an input changed rows that its change feed does not have."""
        session, opened = self._batch.session, self._batch.opened
        for name, former in _versions(proof).items():
            uri, version = self._sources[name]
            table = opened[uri].delta
            if table is not None and changed_rows.has_changes_without_feed(
                session, table, uri, former.version, version
            ):
                return True
        return False

    def _input_keys(self, former_versions: Mapping[str, VersionRead]) -> DataFrame | None:
        """Return the keys that changes of the query's tables affect; None if these may be all, or unknown."""
        batch = self._batch_since(former_versions)
        if not batch.progress.changed.keys() <= self._flow.policy.followed:
            return None
        query = ChangedQuery(batch, self._flow.table, self._table)
        if query.refresh_strategy.kind == StrategyKind.AFFECTED_KEYS:
            return query.affected_keys.rows
        if query.refresh_strategy.kind == StrategyKind.FULL_RECOMPUTE or not query.grouped.is_locatable:
            return None
        return query.affected_groups

    def _batch_since(self, former_versions: Mapping[str, VersionRead]) -> Batch:
        """Return a batch of the changes since some versions."""
        progress, since = self._batch.progress, former_versions[SOURCE].version
        changed = {
            name: former.version
            for name, former in former_versions.items()
            if name != SOURCE and former.version != progress.versions[name]
        }
        first = min(since + 1, progress.until)  # Delta has no change feed of no versions; the rows are told by theirs
        rows = table_reader.changes(self._batch.session, self._flow.source, first, progress.until)
        progress = replace(progress, kind=ProgressKind.INCREMENTAL, since=since, changed=changed)
        return replace(self._batch, delivery=Delivery(rows, self._flow), whole=False, progress=progress)


def _versions(proof: Proof) -> dict[str, VersionRead]:
    """Return the versions of the tables that a proof is based on, by name."""
    return {name: VersionRead(**facts) for name, facts in proof.more["read"].items()}
