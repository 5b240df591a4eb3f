"""Commit a table's metadata with one property set: no row and no other fact changes.

delta-rs cannot do this: it refuses tables with unknown features, and with a property it also commits another protocol.
So on disk we write the file ourselves, as delta-rs and Spark write theirs. The metadata is the logged action, with all
fields that other programs gave it. https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from sluicegate.errors import SluicegateError, Where
from sluicegate.lake import log
from sluicegate.lake.layout import address

# Features of a table with which a commit of the same schema and properties need say nothing more than the metadata.
FEATURES = {
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping",
    "identityColumns", "deletionVectors", "rowTracking", "timestampNtz", "domainMetadata", "v2Checkpoint", "clustering",
    "vacuumProtocolCheck", "typeWidening", "typeWidening-preview", "variantType", "variantType-preview",
    "variantShredding", "variantShredding-preview", "allowColumnDefaults", "checkpointProtection", "inCommitTimestamp",
    "icebergCompatV1", "icebergCompatV2",
}  # fmt: skip

# Property of tables whose commits each carry a time that is later than the one before.
TIMED = "delta.enableInCommitTimestamps"

# A checkpoint in one file, in several, or of the second version.
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.\d{10}\.\d{10}|\.[0-9a-f-]{36})?\.(parquet|json)")


def demand_possible(table: DeltaTable) -> None:
    """Check that a table's protocol allows a commit of metadata alone.

    Raises:
        SluicegateError: the protocol does not allow the commit, or is unknown.
    """
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    if table.metadata().configuration.get(TIMED, "").lower() == "true":
        cause = f"its commits require a timestamp ({TIMED}), which this version does not write"
    elif unknown := sorted(features - FEATURES):
        cause = f"it uses table features that this version does not support: {', '.join(unknown)}"
    else:
        return
    raise SluicegateError("the table's metadata cannot be committed", where=Where(file=table.table_uri), cause=cause)


def put(table: DeltaTable, name: str, value: str) -> bool:
    """Commit the metadata of a local table as its next version; False if another program took that version.

    Args:
        table: the table, as of the version before the commit.
        name: the property.
        value: its value.

    Raises:
        SluicegateError: the log has no metadata.
        OSError: the file system does not support hard links, or is full.
    """
    metadata = logged_metadata(table)
    metadata["configuration"] = {**(metadata.get("configuration") or {}), name: value}
    commit_info = {
        "timestamp": int(time.time() * 1000), "operation": "SET TBLPROPERTIES",
        "operationParameters": {"properties": json.dumps({name: value})}, "engineInfo": "sluicegate",
    }  # fmt: skip
    lines = [json.dumps(action) + "\n" for action in ({"commitInfo": commit_info}, {"metaData": metadata})]
    target = _log(table) / f"{table.version() + 1:020d}.json"
    draft = target.parent / f".{uuid.uuid4().hex}.tmp"
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, target)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def has_property(table: DeltaTable, version: int, name: str, value: str) -> bool:
    """Return whether the commit of a version set a property to a value."""
    return any(metadata.get("configuration", {}).get(name) == value for metadata in _commit_metadata(table, version))


def logged_metadata(table: DeltaTable) -> dict[str, Any]:
    """Return the metadata of a local table as logged: from the newest commit that has it, else from the checkpoint.

    Raises:
        SluicegateError: neither the log nor a checkpoint has metadata.
    """
    checkpoints = _checkpoints(table)
    for version in range(table.version(), -1, -1):
        of_checkpoint = map(_checkpoint_metadata, checkpoints.get(version, ()))
        for metadata in chain(_commit_metadata(table, version), *of_checkpoint):
            return metadata
    raise SluicegateError("the table's log has no metadata", where=Where(file=table.table_uri))


def _checkpoints(table: DeltaTable) -> dict[int, list[Path]]:
    """Return the checkpoint files by version; a checkpoint may lack a part."""
    by_version: dict[int, list[Path]] = {}
    for file in sorted(_log(table).iterdir()):
        if named := _CHECKPOINT.fullmatch(file.name):
            by_version.setdefault(int(named[1]), []).append(file)
    return by_version


def _commit_metadata(table: DeltaTable, version: int) -> list[dict[str, Any]]:
    """Return the metadata of one commit, if it has any and still exists."""
    try:
        actions = log.actions(table.table_uri, version, added=False)
        return [action["metaData"] for action in actions if "metaData" in action]
    except FileNotFoundError:
        return []


def _checkpoint_metadata(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the metadata of one checkpoint file, if it has any."""
    if file.suffix == ".json":
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        yield from (action["metaData"] for action in lines if "metaData" in action)
        return
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        if "metaData" not in opened.schema_arrow.names:
            return
        for batch in opened.iter_batches(columns=["metaData"]):
            for metadata in filter(None, batch.column("metaData").to_pylist(maps_as_pydicts="strict")):
                if metadata["id"] is not None:
                    yield {name: value for name, value in metadata.items() if value is not None}


def _log(table: DeltaTable) -> Path:
    return Path(address(table.table_uri)) / "_delta_log"
