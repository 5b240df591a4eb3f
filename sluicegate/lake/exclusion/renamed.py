"""Record renames of pipelines in the lake, and refuse runs under a former name.

A run with the former definition would find no tables under the former name, and would ingest everything again into
tables that nobody reads. So a rename is recorded under both names while it is in progress, and under the former one
afterwards, and every holder of a pipeline's lock checks the record first.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sluicegate.errors import PipelineRenamed, Where
from sluicegate.lake.layout import Lake, is_local, local_path
from sluicegate.storage import durable
from sluicegate.times import utc_now

# Folder of the records, beside those of the pipelines: no pipeline's name begins with ``_``.
FOLDER = "_renames"


@dataclass(frozen=True)
class Rename:
    """Rename of a pipeline.

    Attributes:
        former: former name.
        name: new name.
        since: start of the rename (UTC, ISO 8601).
        done: whether the rename is complete.
    """

    former: str
    name: str
    since: str
    done: bool = False


def record_rename(root: str, former: str, name: str) -> None:
    """Record a rename under both names, which blocks runs of either."""
    rename = Rename(former, name, utc_now())
    for one in (former, name):
        _put(_file(root, one), rename)


def complete_rename(root: str, former: str, name: str) -> None:
    """Allow runs of the new name; the record under the former name stays, and blocks its runs."""
    _file(root, name).unlink(missing_ok=True)
    rename = recorded_rename(root, former) or Rename(former, name, utc_now())
    _put(_file(root, former), replace(rename, done=True))


def recorded_rename(root: str, name: str) -> Rename | None:
    """Return the rename recorded under a name; None without one."""
    with suppress(FileNotFoundError):
        return Rename(**json.loads(_file(root, name).read_text("utf-8")))
    return None


def former_names(root: str, name: str) -> list[str]:
    """Return the former names of a pipeline, latest first."""
    found: list[str] = []
    before = {one.name: one.former for one in _all_renames(root) if one.done}
    while (former := before.get(name)) is not None and former not in found:
        found.append(former)
        name = former
    return found


def demand_current(at: Lake) -> None:
    """Check that a pipeline was not renamed.

    Raises:
        PipelineRenamed: the pipeline was renamed, or is being renamed.
    """
    rename = None
    if is_local(at.root):
        rename = recorded_rename(at.root, at.pipeline)
    if rename is None:
        return
    where = Where(file=str(_file(at.root, at.pipeline)))
    if not rename.done:
        raise PipelineRenamed(
            f"the rename of {rename.former} to {rename.name} is not complete",
            where=where,
            hint=f"sluicegate rename {rename.former} {rename.name} completes it",
        )
    raise PipelineRenamed(
        f"pipeline {rename.former} was renamed to {rename.name} at {rename.since}",
        where=where,
        hint=f"run {rename.name}; if {rename.former} is a new pipeline, delete this file",
    )


def _all_renames(root: str) -> list[Rename]:
    files = []
    if is_local(root):
        files = sorted((Path(local_path(root)) / FOLDER).glob("*.json"))
    return [one for file in files if (one := recorded_rename(root, file.stem)) is not None]


def _file(root: str, name: str) -> Path:
    return Path(local_path(root)) / FOLDER / f"{name}.json"


def _put(path: Path, rename: Rename) -> None:
    durable.write(str(path), json.dumps(asdict(rename)))
