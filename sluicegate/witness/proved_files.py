"""Landed files of a bronze table that the last verification has proved, and that have not changed since.

A proof has a digest for each ledger batch: of the path, place, size and time of its files. What it could not prove is
named, and looked at again. So are files with rows in data files of the table that were not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluicegate.errors import SluicegateError
from sluicegate.flow.verification.proofs import TARGET, Proof, Proofs, states_of
from sluicegate.lake import layout, tables
from sluicegate.storage import filesystems
from sluicegate.storage.concurrent import map_concurrently

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from sluicegate.lake.proved_state import ProvedState

Key = tuple[int, str]
"""Ledger batch and path of a file."""

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class _Batch:
    """Proof of a ledger batch.

    Attributes:
        digest: digest of what its proved files were.
        others: paths of the files that were not proved.
    """

    digest: str
    others: frozenset[str]


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
        if proofs.are_used:
            self._states = states_of({TARGET: bronze})
            self._facts = dict(_facts(entries, moved))
        else:
            self._states, self._facts = None, {}
        former = proofs.last_proof("bronze", name, definition)
        new_files = self._new_files(former)
        if new_files is not None:
            self.proof = former
        else:
            self.proof = None
        if former and new_files is not None:
            self.keys = frozenset(self._unchanged_files(former, new_files))
        else:
            self.keys = frozenset()

    def keep(self, proved: Collection[Key]) -> None:
        """Records that files have been proved, besides those that were before.

        Args:
            proved: the files.
        """
        every = {*proved, *self.keys}
        batches = {
            str(chunk): [_digest(facts for path, facts in files.items() if (chunk, path) in every), others]
            for chunk, files in self._facts_by_batch().items()
            if len(others := [path for path in files if (chunk, path) not in every]) < len(files)
        }
        if self._states is not None:
            self._proofs.keep(
                "bronze", self._name, self._definition, self._states, self.proof, {"batches": batches}
            )  # fmt: skip

    def _new_files(self, former: Proof | None) -> list[str] | None:
        """Data files of the table that came since it was proved; None if it has to be compared as a whole."""
        if former is None or self._states is None:
            return None
        was: ProvedState = former.states[TARGET]
        if not was.is_history_of(self._bronze):
            return None
        return was.new_files(self._states[TARGET])

    def _unchanged_files(self, former: Proof, new_files: list[str]) -> Iterator[Key]:
        """Files that were proved, are as they were, and have no rows in data files that came since."""
        batches = {int(chunk): _Batch(one[0], frozenset(one[1])) for chunk, one in former.more["batches"].items()}
        touched = self._files_in(new_files)
        for chunk, files in self._facts_by_batch().items():
            before = batches.get(chunk)
            if before is None:
                continue
            its = {path: facts for path, facts in files.items() if path not in before.others}
            if its and touched is not None and _digest(its.values()) == before.digest:
                yield from ((chunk, path) for path in its if (chunk, path) not in touched)

    def _files_in(self, new_files: list[str]) -> set[Key] | None:
        """Files that have rows in some data files; None where these cannot be read by themselves."""
        if not new_files:
            return set()
        if tables.filesystem(self._bronze) is None:
            return None
        found: set[tuple[int, str | None]] = set()
        data = tables.files_of(self._bronze, new_files)
        for batch in data.to_batches(columns=["_chunk", "source_file"]):
            columns = (batch.column(name).to_pylist() for name in ("_chunk", "source_file"))
            found.update(zip(*columns, strict=True))
        return {(chunk, layout.to_ledger_path(path or "")) for chunk, path in found}

    def _facts_by_batch(self) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        for (chunk, path), facts in self._facts.items():
            found.setdefault(chunk, {})[path] = facts
        return found


def _facts(entries: Mapping[Key, Entry], moved: Mapping[str, str]) -> Iterator[tuple[Key, str]]:
    """Where each file lies, and its size and time there, as text."""
    places = [str(one["place"] or moved.get(one["path"], one["path"])) for one in entries.values()]
    far = any(filesystems.to_local_path(place) is None for place in places)
    stats = map_concurrently(_stat, places) if far else map(_stat, places)
    for (key, entry), place, stat in zip(entries.items(), places, stats, strict=True):
        yield key, json.dumps([entry["path"], place, entry["rows"], *stat], default=str)


def _stat(place: str) -> tuple[Any, ...]:
    try:
        return filesystems.file_facts(place) or ("gone",)
    except (OSError, SluicegateError):
        return ("unreachable",)


def _digest(facts: Any) -> str:
    return hashlib.sha256("\n".join(sorted(facts)).encode("utf-8", "surrogateescape")).hexdigest()[:32]
