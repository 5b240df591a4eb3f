"""COPY INTO: selection of its files, and its command-line arguments."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.console import files
from sluicegate.definition import BronzeTable
from sluicegate.errors import LandingMissing, SourceError, UserError, Where
from sluicegate.lake import layout, tables
from sluicegate.landing import discovery, file_status, folders, idempotent_commands
from sluicegate.landing import file_names as naming
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.landing.file_states import LedgerAction

# Spark's own filter (HadoopFSUtils.shouldFilterOutPathName), which also hides files named explicitly.
HIDDEN = re.compile(r"(^|/)(\.[^/]*|_[^=/]*|[^/]*\._COPYING_)$")


@dataclass(frozen=True)
class Copy:
    """A COPY INTO: source, file filters and reader options.

    Attributes:
        source: folder or file, path or URI.
        files: names below the folder; none means all.
        pattern: pattern that names below the folder must match.
        force: whether files already in the ledger are read again, so that their rows are appended once more.
        modified_after: only files modified after this time.
        modified_before: only files modified before this time.
        how: reader options that override the definition.
    """

    source: str
    files: tuple[str, ...] = ()
    pattern: str | None = None
    force: bool = False
    modified_after: datetime | None = None
    modified_before: datetime | None = None
    how: CopyOptions = field(default_factory=CopyOptions)

    def discover(self, name: str, table: BronzeTable, lake: layout.Lake) -> discovery.Discovery:
        """Find the files to enter into the ledger (a ``landing.discovery.FileFinder``).

        Raises:
            LandingMissing: there is no such folder, or no such file in it.
            UserError: the files cannot be read with the options of the copy.
        """
        effective = self.how.table(name, table)
        refused: dict[str, str] = {}
        chosen, copy_options = self.chosen_files(name, effective, refused), self.how.pin_format(effective).facts
        nothing = chosen.slice(0, 0)
        if self.force:
            return replace(self._force_discovery(name, chosen, lake, copy_options), refused=refused)
        ledger = tables.delta_table(lake.ledger(name))
        read = pc.field("action") != LedgerAction.SKIP
        read_paths = []
        if ledger is not None:
            read_paths = tables.dataset(ledger).to_table(["path"], filter=read)["path"]
        is_read = pc.is_in(chosen["path"], value_set=pa.array(read_paths, pa.string()))
        bad = sorted(file_status.failed_files(lake, name, table.fingerprint))
        failed = pc.is_in(chosen["path"], value_set=pa.array(bad, pa.string()))
        new, retried = chosen.filter(pc.invert(is_read)), chosen.filter(failed)
        entered = pa.concat_tables(
            [
                landing_ledger.add_action(LedgerAction.READ, new),
                landing_ledger.add_action(LedgerAction.REPLACE, retried),
            ]
        )
        return discovery.Discovery(landing_ledger.sort_files(entered), nothing, nothing, copy_options, refused=refused)

    def _force_discovery(
        self, name: str, chosen: pa.Table, lake: layout.Lake, copy_options: Mapping[str, Any]
    ) -> discovery.Discovery:
        """Return all files in one ledger batch, all or nothing, without those that an unfinished attempt entered.

        The ledger alone does not show which copy entered a file, so the batch records the command.
        """
        command = idempotent_commands.unfinished_command(lake, name, self.name)
        new = landing_ledger.sort_files(
            landing_ledger.add_action(
                LedgerAction.READ, idempotent_commands.exclude_entered(chosen, command, lake, name)
            )
        )
        nothing = chosen.slice(0, 0)
        return discovery.Discovery(new, nothing, nothing, copy_options, whole=True, command=command)

    @property
    def name(self) -> str:
        """Identity of the command: a hash of its arguments."""
        parts = [[key, value] for key, value in vars(self).items() if key != "how"]
        return idempotent_commands.name_of({"copy": parts, "how": replace(self.how, fields=None).facts})

    def is_unfinished(self, name: str, lake: layout.Lake) -> bool:
        """Return whether there is work without new files: entered files wait, or a forced attempt did not finish."""
        return idempotent_commands.has_waiting_batches(lake, name) or (
            self.force and bool(idempotent_commands.unfinished_command(lake, name, self.name).chunks)
        )

    def arguments(self, table: str, validate: int | None) -> list[str]:
        """Return the copy as arguments of ``spark_jobs/tools/copy_into.py``."""
        # With =, so that a name that begins with - is not taken for an option.
        arguments = [f"--table={table}", f"--source={self.source}", *(["--force"] if self.force else [])]
        arguments += [f"--files={name}" for name in self.files]
        if self.pattern is not None:
            arguments.append(f"--pattern={self.pattern}")
        if self.modified_after:
            arguments += [f"--modified-after={self.modified_after.isoformat()}"]
        if self.modified_before:
            arguments += [f"--modified-before={self.modified_before.isoformat()}"]
        if self.how.facts:
            arguments += [f"--how={json.dumps(self.how.facts)}"]
        if validate is None:
            return arguments
        return [*arguments, f"--validate={validate}"]

    def chosen_files(self, name: str, table: BronzeTable, refused: dict[str, str] | None = None) -> pa.Table:
        """Return all files that the copy selects, in the ledger or not (schema ``storage.listings.FILES``).

        Args:
            name: the bronze table.
            table: its definition.
            refused: mapping that receives the refused paths and the reasons.

        Raises:
            LandingMissing: there is no such folder, or no such file in it.
            SourceError: a named file is hidden to Spark.
        """
        folder, only = folders.folder_of(self.source)
        chosen_names = only or self.files

        def is_named(file_name: str) -> bool:
            return file_name in chosen_names

        admits = is_named if chosen_names else naming.name_filter(table.pathGlobFilter)
        files_below = discovery.files_below(name, folder, admits=admits, skipped_paths=refused)
        names = naming.relative_names(files_below, folder)
        missing = sorted(set(chosen_names) - set(names.to_pylist()))
        if missing:
            raise LandingMissing(
                f"file {missing[0]} not found in {folder}",
                where=Where(table=name, file=folder),
                cause=f"{files(len(missing))} of the given files are missing" if len(missing) > 1 else "",
            )
        hidden = sorted(name for name in chosen_names if HIDDEN.search(name))
        if hidden:
            raise SourceError(
                f"{hidden[0]} cannot be copied under this name",
                where=Where(table=name, file=f"{folder}/{hidden[0]}"),
                cause="Spark ignores files whose names start with . or _ or end in ._COPYING_",
                hint="rename it",
            )
        # A file that is named explicitly is taken even if its name looks temporary.
        keep = (
            pc.is_in(names, value_set=pa.array(chosen_names, pa.string()))
            if chosen_names
            else pc.and_(naming.finished_mask(names), naming.glob_mask(names, table.pathGlobFilter))
        )
        if self.pattern is not None:
            matches = [fnmatch.fnmatchcase(file_name, self.pattern) for file_name in names.to_pylist()]
            keep = pc.and_(keep, pa.chunked_array([matches], pa.bool_()))
        if not chosen_names:
            no_data = files_below.filter(pc.and_(keep, naming.companion_mask(names)))["path"].to_pylist()
            keep = pc.and_(keep, pc.invert(naming.companion_mask(names)))
            if refused is not None:
                refused |= dict.fromkeys(no_data, naming.NO_DATA)
        files_below = files_below.filter(keep)
        if self.modified_after:
            files_below = files_below.filter(pc.field("modification_time") > self.modified_after)
        if self.modified_before:
            files_below = files_below.filter(pc.field("modification_time") < self.modified_before)
        return files_below


def parse_names(text: str | None) -> tuple[str, ...]:
    """Parse a comma-separated list of column names, ``a,b``."""
    if not text:
        return ()
    return tuple(name.strip() for name in text.split(","))


def parse_options(texts: Sequence[str]) -> dict[str, str]:
    """Parse Spark reader options of the form ``name=value``.

    Raises:
        UserError: one is not, or is given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UserError(f"{text} is not a reader option", hint="write name=value, for example header=true")
        if name.lower() in {option.lower() for option in values}:
            raise UserError(f"duplicate option {name}")
        values[name] = value
    return values


def parse_moment(text: str) -> datetime:
    """Parse a time, ``2024-05-01`` or ``2024-05-01T12:00:00``, in UTC unless it has a zone.

    Raises:
        UserError: it is not a timestamp.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text} is not a timestamp", hint="write 2024-05-01 or 2024-05-01T12:00:00") from None
    if time.tzinfo:
        return time.astimezone(UTC)
    return time.replace(tzinfo=UTC)
