"""Landed files of a bronze table that the last verification has proved, and that have not changed since.

A proof has a digest for each ledger batch: of the path, place, size and time of its files. What it could not prove is
named, and looked at again. So are files with rows in data files of the table that were not there.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from deltalake import DeltaTable

from sluicegate.errors import SluicegateError
from sluicegate.flow.verification.proofs import TARGET, Proof, Proofs, states_of
from sluicegate.lake import layout, tables
from sluicegate.lake.proved_state import ProvedState
from sluicegate.storage import filesystems
from sluicegate.storage.concurrent import map_concurrently

# Ledger batch and path of a file.
Key = tuple[int, str]

Entry = Mapping[str, Any]


class ProvedFiles:
    """Files of one bronze table that need not be compared again.

    Args:
        proofs: the proofs of the pipeline.
        name: the table.
        definition: what identifies how its files are read.
        bronze: the table.
        entries: the files that its rows are of.
        moved: present paths of files that were read from a former landing folder, by the former path.
    """

    def __init__(
        self,
        proofs: Proofs,
        name: str,
        definition: Any,
        bronze: DeltaTable,
        entries: Mapping[Key, Entry],
        moved: Mapping[str, str],
    ) -> None:
        self._proofs, self._name, self._definition, self._bronze = proofs, name, definition, bronze
        self._states, self._facts = None, defaultdict[int, dict[str, str]](dict)
        if proofs.are_used:
            self._states = states_of({TARGET: bronze})
            for (chunk, path), facts in _facts(entries, moved):
                self._facts[chunk][path] = facts
        self.proof: Proof | None = None
        self.keys: frozenset[Key] = frozenset()
        former = proofs.last_proof("bronze", name, definition)
        new_files = self._new_files(former)
        if former is not None and new_files is not None:
            self.proof, self.keys = former, frozenset(self._unchanged_files(former, new_files))

    def keep(self, proved: Collection[Key]) -> None:
        """Record that files have been proved, besides those that were before.

        Args:
            proved: the files.
        """
        if self._states is None:
            return
        proved_files = {*proved, *self.keys}
        batches = {}
        for chunk, files in self._facts.items():
            facts = [facts for path, facts in files.items() if (chunk, path) in proved_files]
            if facts:
                unproved = [path for path in files if (chunk, path) not in proved_files]
                batches[str(chunk)] = [_digest(facts), unproved]
        self._proofs.keep("bronze", self._name, self._definition, self._states, self.proof, {"batches": batches})

    def _new_files(self, former: Proof | None) -> list[str] | None:
        """Data files of the table that came since it was proved; None if it has to be compared as a whole."""
        if former is None or self._states is None:
            return None
        was: ProvedState = former.states[TARGET]
        if not was.is_history_of(self._bronze):
            return None
        return was.new_files(self._states[TARGET])

    def _unchanged_files(self, former: Proof, new_files: list[str]) -> Iterator[Key]:
        """Yield files that were proved, are as they were, and have no rows in data files that came since."""
        touched = self._files_in(new_files)
        if touched is None:
            return
        for chunk, (digest, unproved) in former.more["batches"].items():
            facts = dict(self._facts.get(int(chunk), {}))
            for path in unproved:
                facts.pop(path, None)
            if facts and _digest(facts.values()) == digest:
                yield from {(int(chunk), path) for path in facts} - touched

    def _files_in(self, new_files: list[str]) -> set[Key] | None:
        """Return files that have rows in some data files; None where these cannot be read by themselves."""
        if not new_files:
            return set()
        if tables.filesystem(self._bronze) is None:
            return None
        pairs: set[tuple[int, str | None]] = set()
        for batch in tables.files_of(self._bronze, new_files).to_batches(columns=["_chunk", "source_file"]):
            pairs.update(zip(batch["_chunk"].to_pylist(), batch["source_file"].to_pylist(), strict=True))
        return {(chunk, layout.to_ledger_path(path or "")) for chunk, path in pairs}


def _facts(entries: Mapping[Key, Entry], moved: Mapping[str, str]) -> Iterator[tuple[Key, str]]:
    """Yield where each file lies, and its size and time there, as text."""
    places = [str(entry["place"] or moved.get(entry["path"], entry["path"])) for entry in entries.values()]
    stats: Iterable[tuple[Any, ...]] = map(_stat, places)
    if None in map(filesystems.to_local_path, places):
        stats = map_concurrently(_stat, places)
    for (key, entry), place, stat in zip(entries.items(), places, stats, strict=True):
        yield key, json.dumps([entry["path"], place, entry["rows"], *stat], default=str)


def _stat(place: str) -> tuple[Any, ...]:
    try:
        return filesystems.file_facts(place) or ("gone",)
    except (OSError, SluicegateError):
        return ("unreachable",)


def _digest(facts: Any) -> str:
    return hashlib.sha256("\n".join(sorted(facts)).encode("utf-8", "surrogateescape")).hexdigest()[:32]
