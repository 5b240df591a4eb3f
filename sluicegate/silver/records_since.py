"""Records of a silver table that came or changed since the last verification.

They are in the change feeds of its tables, and in data files that were not there. What was proved holds for all other
records if nothing else decides about their rows: the definition, the lookups and the histories of all tables are the
same, and no data file was changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sluicegate.flow.model import name_of
from sluicegate.flow.proofs import TARGET, Proof, Proofs, states_of
from sluicegate.frames.data_skipping import of_chunks
from sluicegate.lake import offsets, tables
from sluicegate.schema.columns import IDENTITY
from sluicegate.silver.sampled_records import Part, are_independent
from sluicegate.spark import table_reader
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

    from sluicegate.silver.evaluate import RowEvaluator

LAYER = "silver"

SCHEMA = "_chunk BIGINT, _pos BIGINT"


class RecordsSince:
    """What came or changed of one table since it was proved.

    Args:
        proofs: the proofs of the pipeline.
        evaluator: the evaluator of all records of the versions that the table has taken in.
        side_tables: addresses of the side tables that are compared with it.
    """

    def __init__(self, proofs: Proofs, evaluator: RowEvaluator, side_tables: list[str]) -> None:
        self._proofs, self._evaluator, self._flow = proofs, evaluator, evaluator.batch.flow
        self._uris = {TARGET: self._flow.target, **{name_of(uri): uri for uri in side_tables}}
        self._tables = self._opened() if proofs.used else {}
        self._states = (states_of(self._tables) if proofs.used else None) or {}
        self._more: dict[str, Any] = {"sources": self._sources(), "inputs": dict(evaluator.batch.progress.stamps)}
        proof = proofs.last(LAYER, self._flow.table, self._definition)
        self.proof = proof if proof is not None and self._holds(proof) else None

    @property
    def nothing(self) -> bool:
        """Whether nothing came or changed."""
        return self.proof is not None and self.proof.states == self._states and self.proof.more == self._more

    def part(self, keep: Callable[[DataFrame], DataFrame]) -> tuple[Part, int] | None:
        """What came or changed, with the number of its identities; None if all records have to be compared.

        Args:
            keep: keeps a frame that is read more than once.
        """
        if self.proof is None or not are_independent(self._evaluator):
            return None
        try:
            ids = keep(reduce(lambda a, b: a.unionByName(b), self._changed(self.proof)).distinct())
            count, chunks = ids.count(), sorted(row["_chunk"] for row in ids.select("_chunk").distinct().collect())
        except Exception:  # a version in between, or its change feed, is gone
            self.proof = None
            return None

        def choose(rows: DataFrame) -> DataFrame:
            near = rows.where(of_chunks(chunks))
            return near.join(ids, [*IDENTITY], "left_semi").select(*map(quoted, rows.columns))

        since = f"the records that came or changed since version {self.proof.states[TARGET].version}"
        return Part(choose, since, str(self.proof), "proved-before"), count

    def keep(self, former: Proof | None) -> None:
        """Records that the table has been proved, unless it was changed meanwhile.

        Args:
            former: the proof of what was not compared; None if all was.
        """
        names = {name: table.version() for name, table in self._opened().items()} if self._proofs.used else {}
        known = {name: state.version for name, state in self._states.items()}
        if names and known == names and all(one[2] is not None for one in self._more["sources"].values()):
            self._proofs.keep(LAYER, self._flow.table, self._definition, self._states, former, self._more)

    @property
    def _definition(self) -> Any:
        flow = self._flow
        return [flow.fingerprint or self._evaluator.made_by, flow.rules, flow.key]

    def _opened(self) -> dict[str, DeltaTable]:
        opened = {name: tables.delta_table(uri) for name, uri in self._uris.items()}
        return {name: table for name, table in opened.items() if table is not None}

    def _read(self) -> Mapping[str, tuple[str, int]]:
        """Tables that the flows follow, with the version that was taken in, by the names of the flows."""
        now = self._evaluator.batch.progress
        if not self._flow.streams:
            return {"": (self._flow.source, now.until)}
        return {name: (self._flow.streams[name], one.until) for name, one in now.streams.items()}

    def _sources(self) -> dict[str, list[Any]]:
        """Of each table that is followed: its id, the version that was taken in, which commit that is, and restores."""
        if not self._proofs.used:
            return {}
        found = {}
        for name, (uri, version) in self._read().items():
            table = self._evaluator.batch.opened[uri]
            if table.delta is not None:
                restores = offsets.lineage(table.delta).facts()
                found[name] = [tables.table_id(table.delta), version, table.commit_identity(version), restores]
        return found

    def _holds(self, proof: Proof) -> bool:
        """Whether what was proved still holds for all records that did not change."""
        same_inputs = proof.more["inputs"] == self._more["inputs"] and not self._flow.references
        if not same_inputs or proof.states.keys() - self._states.keys():
            return False
        return self._are_sources_of(proof) and all(
            state.is_history_of(self._tables[name]) and state.new_files(self._states[name]) is not None
            for name, state in proof.states.items()
        )

    def _are_sources_of(self, proof: Proof) -> bool:
        """Whether the sources are those of a proof, and went on from what they were."""
        before, now = proof.more["sources"], self._more["sources"]
        if before.keys() != now.keys():
            return False
        for name, (table_id, version, identity, restores) in before.items():
            opened = self._evaluator.batch.opened[self._read()[name][0]]
            same = (table_id, restores) == (now[name][0], now[name][3]) and version <= now[name][1]
            if not same or opened.commit_identity(version) != identity:
                return False
        return True

    def _changed(self, proof: Proof) -> Iterator[DataFrame]:
        """Identities of the records that came or changed, of each table that may have rows of them."""
        session = self._evaluator.batch.session
        sources, now = proof.more["sources"], self._more["sources"]
        spans = [(self._read()[name][0], one[1], now[name][1]) for name, one in sources.items()]
        spans += [(self._uris[name], was.version, self._states[name].version) for name, was in proof.states.items()]
        yield session.createDataFrame([], SCHEMA)
        for uri, since, until in spans:
            if since < until:
                yield table_reader.changes(session, uri, since + 1, until).select(*IDENTITY)
        for name, state in self._states.items():
            was = proof.states.get(name)
            if new := list(state.files) if was is None else was.new_files(state):
                folder = self._uris[name].rstrip("/")
                yield session.read.schema(SCHEMA).parquet(*(f"{folder}/{unquote(path)}" for path in new))
