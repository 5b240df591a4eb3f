"""Find the records of a silver table that were added or changed since the last verification.

These records are in the change feeds of its tables and in new data files, or are affected by changed rows of a lookup.
With keys, all records that have or had one of their keys are compared with them, as a record's disposition depends on
no others. The proof holds for the rest if nothing else affects their rows: the definition and the histories of all
tables are the same, and no data file was changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.flow.model import name_of
from sluicegate.flow.verification.finding import FindingReason
from sluicegate.flow.verification.proofs import TARGET, Proof, Proofs, states_of
from sluicegate.flow.versions_read import VersionRead, versions_read
from sluicegate.frames import changed_rows
from sluicegate.frames.data_skipping import chunk_predicate
from sluicegate.frames.record_ids import Identities, materialize
from sluicegate.lake import layout, tables
from sluicegate.schema.columns import IDENTITY
from sluicegate.silver.bound_records import BoundRecords, affected_records
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.sampled_records import SampledPart, are_bound_by_keys
from sluicegate.spark import table_reader
from sluicegate.spark_sql.identifiers import quote_name

LAYER = "silver"

SCHEMA = "_chunk BIGINT, _pos BIGINT"

# Rows of a table and its side tables that came, changed or went, by the names of the tables.
Changed = Mapping[str, "list[DataFrame]"]


class RecordsSince:
    """Changes of one table since its proof.

    Args:
        proofs: the proofs of the pipeline.
        evaluator: the evaluator of all records of the processed versions.
        lake: the lake.
        side_tables: addresses of the compared side tables.
    """

    def __init__(self, proofs: Proofs, evaluator: RowEvaluator, lake: layout.Lake, side_tables: Sequence[str]) -> None:
        self._proofs, self._evaluator, self._flow, self._lake = proofs, evaluator, evaluator.batch.flow, lake
        self._uris = {TARGET: self._flow.target, **{name_of(uri): uri for uri in side_tables}}
        self._tables = self._open_tables() if proofs.are_used else {}
        self._states = (states_of(self._tables) or {}) if proofs.are_used else {}
        self._places = {"sources": self._sources(), "inputs": self._inputs()}
        opened, places = evaluator.batch.opened, self._places if proofs.are_used else {}
        self._read = {kind: versions_read(opened, addresses) for kind, addresses in places.items()}
        self._recorded = {
            kind: {name: version.as_dict() for name, version in versions.items()}
            for kind, versions in self._read.items()
        }
        proof = proofs.last_proof(LAYER, self._flow.table, self._definition)
        self.proof = proof if proof is not None and self._proof_holds(proof) else None

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was added or changed."""
        return self.proof is not None and self.proof.states == self._states and self.proof.more == self._recorded

    def part(self, keep: Callable[[DataFrame], DataFrame]) -> tuple[SampledPart, int] | None:
        """Return the changed part with its number of identities; None if all records have to be compared.

        Args:
            keep: persists a frame that is read more than once.
        """
        if self.proof is None or not are_bound_by_keys(self._evaluator):
            return None
        try:
            rows = {name: [*map(keep, self._rows(self.proof, name))] for name in self._states}
            ids = self._changed_identities(self.proof, rows)
            if self._evaluator.bound_columns:
                ids = self._add_bound_records(ids, rows)
            ids = keep(ids)
            count, chunks = ids.count(), sorted(row["_chunk"] for row in ids.select("_chunk").distinct().collect())
        except Exception:  # a version in between, or its change feed, is gone
            self.proof = None
            return None

        def choose(rows: DataFrame) -> DataFrame:
            in_chunks = rows.where(chunk_predicate(chunks))
            return in_chunks.join(ids, [*IDENTITY], "left_semi").select(*map(quote_name, rows.columns))

        which = f"the records that were added or changed since version {self.proof.states[TARGET].version}"
        if self._evaluator.bound_columns:
            which += ", with those that share a key with them"
        return SampledPart(choose, which, str(self.proof), FindingReason.PROVED_BEFORE), count

    def keep(self, former: Proof | None) -> None:
        """Record that the table has been proved, unless it was changed meanwhile.

        Args:
            former: the proof of the records that were not compared; None if all were.
        """
        if not self._states:
            return
        compared = {name: state.version for name, state in self._states.items()}
        current = {name: table.version() for name, table in self._open_tables().items()}
        if current == compared and all(source.entry is not None for source in self._read["sources"].values()):
            self._proofs.keep(LAYER, self._flow.table, self._definition, self._states, former, self._recorded)

    @property
    def _definition(self) -> Any:
        flow = self._flow
        return [flow.fingerprint or self._evaluator.definition_facts, flow.rules, flow.key]

    def _open_tables(self) -> dict[str, DeltaTable]:
        opened = {name: tables.delta_table(uri) for name, uri in self._uris.items()}
        return {name: table for name, table in opened.items() if table is not None}

    def _sources(self) -> Mapping[str, tuple[str, int]]:
        """Return the sources of the flows with the processed version, by flow."""
        progress = self._evaluator.batch.progress
        if not self._flow.streams:
            return {"": (self._flow.source, progress.until)}
        return {name: (self._flow.streams[name], stream.until) for name, stream in progress.streams.items()}

    def _inputs(self) -> Mapping[str, tuple[str, int]]:
        """Return the lookups with the version that was read, by name."""
        versions = self._evaluator.batch.progress.versions
        # A lookup that the definition no longer reads may be in the last commit.
        return {
            name: (self._flow.inputs[name], version) for name, version in versions.items() if name in self._flow.inputs
        }

    # --- whether what was proved holds -------------------------------------------------------------------------------

    def _proof_holds(self, proof: Proof) -> bool:
        """Return whether the proof still holds for the unchanged records."""
        if self._flow.references or proof.states.keys() - self._states.keys():
            return False
        if not (self._continues_proof(proof, "sources") and self._continues_proof(proof, "inputs")):
            return False
        if any(name not in self._flow.policy.followed - self._flow.as_of_run for name in self._changed_inputs(proof)):
            return False  # which records it decides about is not known
        return all(
            state.is_history_of(self._tables[name]) and state.new_files(self._states[name]) is not None
            for name, state in proof.states.items()
        )

    def _continues_proof(self, proof: Proof, kind: str) -> bool:
        """Return whether the tables read are those of a proof, and continue from its versions."""
        former_versions, versions, opened = _versions(proof, kind), self._read[kind], self._evaluator.batch.opened
        if former_versions.keys() != versions.keys():
            return False
        return all(
            former_versions[name].continues_to(version, opened[self._places[kind][name][0]])
            for name, version in versions.items()
        )

    def _changed_inputs(self, proof: Proof) -> dict[str, int]:
        """Return the lookups whose version differs from the proof's, with that version."""
        versions = self._read["inputs"]
        return {
            name: former.version
            for name, former in _versions(proof, "inputs").items()
            if former.version != versions[name].version
        }

    # --- what changed ------------------------------------------------------------------------------------------------

    def _rows(self, proof: Proof, name: str) -> Iterator[DataFrame]:
        """Yield the added, changed and deleted rows of a table or side table: by its change feed, and by its files."""
        session, uri, state = self._evaluator.batch.session, self._uris[name], self._states[name]
        former = proof.states.get(name)
        if former is None:
            yield table_reader.read(session, uri, state.version)
            return
        if former.version < state.version:
            yield table_reader.changes(session, uri, former.version + 1, state.version)
        rows = changed_rows.rows_changed_since(session, self._tables[name], uri, former, state)
        if rows is None:
            raise LookupError(f"files that a commit of {name} replaced are gone, so its copied rows are unknown")
        yield rows

    def _changed_identities(self, proof: Proof, rows: Changed) -> DataFrame:
        """Return the identities of added or changed records, and of those that changed lookup rows affect.

        Args:
            proof: the former proof.
            rows: added, changed and deleted rows of the table and its side tables, by name.
        """
        session, parts = self._evaluator.batch.session, [frame for frames in rows.values() for frame in frames]
        self._demand_feeds(proof)
        for name, former in _versions(proof, "sources").items():
            uri, until = self._places["sources"][name]
            if former.version < until:
                parts.append(table_reader.changes(session, uri, former.version + 1, until))
        parts += [affected_records(self._evaluator, name, since) for name, since in self._changed_inputs(proof).items()]
        nothing = session.createDataFrame([], SCHEMA)
        return _unite([nothing, *(frame.select(*IDENTITY) for frame in parts)]).distinct()

    def _demand_feeds(self, proof: Proof) -> None:
        """Require that the change feeds of the tables that are read tell of all that changed since a proof.

        Raises:
            LookupError: one of them does not.
        """
        session, opened = self._evaluator.batch.session, self._evaluator.batch.opened
        for kind, places in self._places.items():
            for name, former in _versions(proof, kind).items():
                uri, version = places[name]
                table, since = opened[uri].delta, former.version
                if table is not None and changed_rows.has_changes_without_feed(session, table, uri, since, version):
                    raise LookupError(f"rows of {name_of(uri)} changed of which its change feed does not tell")

    # --- what it decides about ---------------------------------------------------------------------------------------

    def _add_bound_records(self, changed: DataFrame, rows: Changed) -> DataFrame:
        """Return identities with those of all records that have or had one of their keys.

        Args:
            changed: the identities.
            rows: added, changed and deleted rows of the table and its side tables, by name.
        """
        batch = self._evaluator.batch
        changed = materialize(_unite([changed, *self._records_of_lost_keys(rows)]).distinct(), few=False)
        identities = Identities(changed)
        frames = [
            batch.records(),
            *(frame for uri in self._uris.values() for frame in self._evaluator.stored_frames(uri)),
        ]
        ids = _unite([identities.rows_in(frame).select(*self._evaluator.record_id) for frame in frames]).distinct()
        bound = BoundRecords(self._evaluator, self._lake, materialize(ids, few=False))
        keys = [bound.keys_of(frame) for name in self._holders for frame in rows.get(name, [])]
        bound.add_others(_unite(keys).distinct() if keys else None)
        return _unite([changed, bound.chosen.frame.select(*IDENTITY)]).distinct()

    @property
    def _holders(self) -> list[str]:
        """Names of tables whose rows hold keys: quarantine does if a rule makes columns unique."""
        if not self._evaluator.unique:
            return [TARGET]
        return [TARGET, name_of(self._lake.quarantine(self._flow.table))]

    def _records_of_lost_keys(self, rows: Changed) -> Iterator[DataFrame]:
        """Yield records that share a key with one that is no longer set aside, as when a delete of its key was."""
        name = name_of(self._lake.set_aside(self._flow.table))
        if not (rows.get(name) and self._evaluator.table.changes):
            return
        keys = F.broadcast(_unite([frame.select("_key") for frame in rows[name]]).where("_key IS NOT NULL").distinct())
        of_key = self._evaluator.key.alias("_key")
        stored = [frame.select(*IDENTITY, of_key) for frame in self._evaluator.stored_frames(self._flow.target)]
        stored += [frame.select(*IDENTITY, "_key") for frame in self._evaluator.stored_frames(self._uris[name])]
        yield from (frame.join(keys, "_key", "left_semi").drop("_key") for frame in stored)


def _versions(proof: Proof, kind: str) -> dict[str, VersionRead]:
    """Return the versions of the tables that a proof is based on, by name."""
    return {name: VersionRead(**facts) for name, facts in proof.more[kind].items()}


def _unite(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionByName(b), frames)
