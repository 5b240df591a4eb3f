"""Identify a commit among all of its version, wherever the table is and whoever wrote it.

The identity is a digest of the commit's log entry. An entry never changes, is copied verbatim, and has times and file
names that no other has. The IDs in ``commitInfo`` are not enough: delta-rs writes no ``txnId``, most tables have no
``inCommitTimestamp``, and a checkpoint keeps neither.

One of our commits may be repeated: a run repeats what a power cut removed, or what a table lacks after it alone was
restored from a backup. It is the same commit if it has the same rows, that is, the same inputs under the same
definition. So its digest is one of its inputs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.lake import log
from sluicegate.lake.commits.commit_info import BronzeFacts, CommitInfo, Fact
from sluicegate.storage import filesystems

# First bytes of an entry that identify it: that of a large write has megabytes of files.
HEAD = 16 * 1024

# Facts of a commit of ours that say what its rows were made from.
MADE_FROM: tuple[Fact[Any], ...] = (
    CommitInfo.layer, CommitInfo.table, CommitInfo.mode, CommitInfo.until, BronzeFacts.chunk, CommitInfo.inputs,
    BronzeFacts.source, CommitInfo.source_id, CommitInfo.streams, CommitInfo.commits, CommitInfo.definition,
    CommitInfo.fingerprint, CommitInfo.key, CommitInfo.rules, CommitInfo.interval, CommitInfo.replayed,
    BronzeFacts.failed, BronzeFacts.manifest,
)  # fmt: skip


def identity(uri: str, version: int) -> str | None:
    """Return the digest that identifies the commit of a version; None if the log no longer has it.

    Raises:
        OSError: the store cannot be reached.
    """
    head = _head(uri, version)
    if head is None:
        return None
    text, inputs = head, _inputs(head)
    if inputs is not None:
        text = json.dumps(inputs, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:32]


def entry_digest(uri: str, version: int) -> str | None:
    """Return the digest of the whole log entry of a version; None if the log no longer has it.

    Another commit that was made of the same inputs, which has the same identity, has another one.

    Raises:
        OSError: the store cannot be reached.
    """
    fs, path = filesystems.open_store(log.commit_file(uri, version))
    try:
        return hashlib.sha256(fs.cat_file(path)).hexdigest()[:32]
    except FileNotFoundError:
        return None


def _head(uri: str, version: int) -> bytes | None:
    file = log.commit_file(uri, version)
    try:
        if (path := filesystems.to_local_path(file)) is not None:  # as a run with nothing to do imports no fsspec
            with open(path, "rb") as entry:
                return entry.read(HEAD)
        fs, path = filesystems.open_store(file)
        with fs.open(path, "rb") as entry:
            return bytes(entry.read(HEAD))
    except FileNotFoundError:
        return None


def _inputs(head: bytes) -> dict[str, Any] | None:
    """Return the inputs of one of our commits; None for other commits, or if it does not record them here."""
    actions = _actions(head)
    facts = CommitInfo.from_user_metadata(log.commit_info(actions).get("userMetadata"))
    if facts is None:
        return None
    identities = [identity for commits in facts.commits.values() for identity in commits.values()]
    if not identities or None in identities:
        return None
    inputs = {fact.key: facts[fact.key] for fact in MADE_FROM if fact.key in facts}
    if facts.layer == "bronze":
        inputs["rows"] = _rows(action["add"] for action in actions if "add" in action)
    else:
        # A ledger batch is read alone; other batches depend on where they began.
        inputs[CommitInfo.since.key] = facts.get(CommitInfo.since.key)
    return inputs


def _actions(head: bytes) -> list[dict[str, Any]]:
    """Return the complete actions at the start of a log entry; none if it is not JSON."""
    lines = head.splitlines()
    if len(head) == HEAD:
        lines.pop()  # it may be cut
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError:
        return []


def _rows(added: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the row count of files, and their first and last positions: Spark decides how files are split."""
    statistics = [json.loads(file.get("stats") or "{}") for file in added]
    count = sum(file.get("numRecords", 0) for file in statistics)
    first, last = _positions(statistics, "minValues"), _positions(statistics, "maxValues")
    return [count, min(first, default=None), max(last, default=None)]


def _positions(statistics: Iterable[Mapping[str, Any]], bound: str) -> list[int]:
    """Return the positions at a bound of each file, as far as statistics have them."""
    positions = [(file.get(bound) or {}).get("_pos") for file in statistics]
    return [position for position in positions if position is not None]
