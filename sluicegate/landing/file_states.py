"""What a ledger and the archive say of a file: the action of its entry, its status since, and how it left landing."""

from __future__ import annotations

from enum import StrEnum


class LedgerAction(StrEnum):
    """What bronze does with the file of a ledger entry; the values are in the ledger's column ``action``.

    Attributes:
        READ: read the file; it has no rows in the table.
        REPLACE: read the file, and replace the rows that it gave before.
        SKIP: leave the file unread.
        RESET: read the file into a table that its ledger batch replaces whole.
        DROP: give up the file's rows, in a ledger batch that replaces the whole table.
        MOVED: keep the rows: the ledger has the file below a former landing folder, with this size and time.
    """

    READ = "read"
    REPLACE = "replace"
    SKIP = "skip"
    RESET = "reset"
    DROP = "drop"
    MOVED = "moved"


# Actions whose files are not opened.
UNREAD = (LedgerAction.SKIP, LedgerAction.DROP, LedgerAction.MOVED)

# Actions whose files are read.
OPENED = (LedgerAction.READ, LedgerAction.REPLACE, LedgerAction.RESET)

# Actions that end the rows which a file gave before.
RENEWING = (LedgerAction.REPLACE, LedgerAction.RESET, LedgerAction.DROP)


class FileStatus(StrEnum):
    """What became of a landed file, as ``sluicegate files`` shows it; in the order of its help.

    Attributes:
        WAITING: landed or in the ledger, and not in bronze yet.
        SETTLING: too young to be read: it may still be being written.
        CHANGED: read, and landed since with another size or time.
        INGESTED: its rows are in the table.
        ARCHIVED: its rows are in the table, and the file was removed from landing.
        FAILED: it could not be read.
        REPLACED: a later reading of the file replaced its rows, or they were dropped; a skipped file was read or moved.
        DROPPED: a reset gave up its rows, since the file was gone.
        SKIPPED: left unread: it was there before the table, or is on a list of files that another pipeline has read.
        MOVED: read from a former landing folder: its rows are under that path.
        REFUSED: passed over: a link that leads out of the folder, or what cannot be read.
    """

    WAITING = "waiting"
    SETTLING = "settling"
    CHANGED = "changed"
    INGESTED = "ingested"
    ARCHIVED = "archived"
    FAILED = "failed"
    REPLACED = "replaced"
    DROPPED = "dropped"
    SKIPPED = "skipped"
    MOVED = "moved"
    REFUSED = "refused"


class RemovalMode(StrEnum):
    """How a file left landing; the values are in the archive's log, and two of them those of ``cleanSource``.

    Attributes:
        MOVE: it was moved to the archive.
        DELETE: it was deleted.
        GONE: it is gone, though we neither moved nor deleted it.
    """

    MOVE = "MOVE"
    DELETE = "DELETE"
    GONE = "GONE"
