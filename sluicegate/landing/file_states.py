"""What a ledger and the archive say of a file: the action of its entry, its status since, and how it left landing."""

from __future__ import annotations

from enum import StrEnum


class LedgerAction(StrEnum):
    """What bronze does with the file of a ledger entry; the values are in the ledger's column ``action``."""

    READ = "read"
    """Read the file; it has no rows in the table."""

    REPLACE = "replace"
    """Read the file, and replace the rows that it gave before."""

    SKIP = "skip"
    """Leave the file unread."""

    RESET = "reset"
    """Read the file into a table that its ledger batch replaces whole."""

    DROP = "drop"
    """Give up the file's rows, in a ledger batch that replaces the whole table."""

    MOVED = "moved"
    """Keep the rows: the ledger has the file below a former landing folder, with this size and time."""


UNREAD = (LedgerAction.SKIP, LedgerAction.DROP, LedgerAction.MOVED)
"""Actions whose files are not opened."""

OPENED = (LedgerAction.READ, LedgerAction.REPLACE, LedgerAction.RESET)
"""Actions whose files are read."""

RENEWING = (LedgerAction.REPLACE, LedgerAction.RESET, LedgerAction.DROP)
"""Actions that end the rows which a file gave before."""


class FileStatus(StrEnum):
    """What became of a landed file, as ``sluicegate files`` shows it; in the order of its help."""

    WAITING = "waiting"
    """Landed or in the ledger, and not in bronze yet."""

    SETTLING = "settling"
    """Too young to be read: it may still be being written."""

    CHANGED = "changed"
    """Read, and landed since with another size or time."""

    INGESTED = "ingested"
    """Its rows are in the table."""

    ARCHIVED = "archived"
    """Its rows are in the table, and the file was removed from landing."""

    FAILED = "failed"
    """It could not be read."""

    REPLACED = "replaced"
    """A later reading of the file replaced its rows, or they were dropped; a skipped file was read or moved."""

    DROPPED = "dropped"
    """A reset gave up its rows, since the file was gone."""

    SKIPPED = "skipped"
    """Left unread: it was there before the table, or is on a list of files that another pipeline has read."""

    MOVED = "moved"
    """Read from a former landing folder: its rows are under that path."""

    REFUSED = "refused"
    """Passed over: a link that leads out of the folder, or what cannot be read."""


class RemovalMode(StrEnum):
    """How a file left landing; the values are in the archive's log, and two of them those of ``cleanSource``."""

    MOVE = "MOVE"
    """It was moved to the archive."""

    DELETE = "DELETE"
    """It was deleted."""

    GONE = "GONE"
    """It is gone, though we neither moved nor deleted it."""
