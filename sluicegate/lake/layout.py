"""The layout of the lake: where each table of a pipeline is, and what a place on the local disk is called."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from sluicegate.errors import LakeUnsupported

LAYERS = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class Lake:
    """The addresses of one pipeline's tables.

    Attributes:
        root: path or URI of the lake.
        pipeline: name of the pipeline.
    """

    root: str
    pipeline: str

    def __post_init__(self) -> None:
        """Refuses a root that Spark and delta-rs would take for two different places, or that delta-rs stops at.

        Raises:
            LakeUnsupported: the path has one of the characters ``#?%[]^|\\`` in it.
        """
        if is_local(self.root) and (odd := set(self.root) & set("#?%[]^|\\")):
            cause = f"delta-rs, which reads and writes tables beside Spark, cannot work below {' '.join(sorted(odd))}"
            raise LakeUnsupported(f"no lake can be at {self.root}", cause=cause, hint="choose another with --lake")

    def _at(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), self.pipeline, *parts))

    def table(self, layer: str, name: str) -> str:
        """``{lake}/{pipeline}/{layer}/{name}``."""
        return self._at(layer, name)

    def quarantine(self, name: str) -> str:
        """Rows of silver table ``name`` that broke a rule, beside the table."""
        return self._at("silver", f"{name}_quarantine")

    def set_aside(self, name: str) -> str:
        """Identities of records that are in neither silver nor quarantine: duplicates, superseded, dropped."""
        return self._at("_state", f"{name}_set_aside")

    def groups(self, name: str) -> str:
        """What is kept of each group of gold table ``name``, so that its rows need not be read again."""
        return self._at("_state", f"{name}_groups")

    def checkpoint(self, name: str) -> str:
        """Spark's state of gold table ``name``, where it is a streaming aggregation."""
        return self._at("_state", f"{name}_checkpoint")

    def ledger(self, name: str) -> str:
        """The landed files of bronze table ``name``."""
        return self._at("_ledger", name)

    def outcome(self, name: str) -> str:
        """What became of each landed file of bronze table ``name``."""
        return self._at("_ledger", f"{name}_outcome")

    def schemas(self, name: str) -> str:
        """The columns that bronze table ``name`` has had over time."""
        return self._at("_schemas", name)

    def archive(self, name: str) -> str:
        """Which files of bronze table ``name`` were taken away from landing, and to where."""
        return self._at("_ledger", f"{name}_archive")

    @property
    def registered(self) -> str:
        """A file that says which tables the catalog was told of."""
        return self._at("_state", "_catalog.json")

    @property
    def databases(self) -> str:
        """The folder that a database of the catalog has for tables of people's own; ours lie elsewhere."""
        return "/".join((self.root.rstrip("/"), "_databases"))

    @property
    def events(self) -> str:
        """The event log: one row for each commit that a run made."""
        return self._at("_events")

    @property
    def streams(self) -> str:
        """The folder in which continuous runs say that they are there."""
        return self._at("_streams")

    @property
    def locks(self) -> str:
        """The folder of the pipeline's locks."""
        return self._at("_locks")

    def lock(self, name: str) -> str:
        """A lock of the pipeline: a file on local disk, a lease on an object store."""
        return f"{self.locks}/{name}.lock" if is_local(self.root) else f"{self.locks}/{name}"


def is_local(uri: str) -> bool:
    """Whether a path or URI lies on this machine's file systems."""
    return urlparse(uri).scheme in ("", "file")


def local_path(uri: str) -> str:
    """The path of a local path or ``file:`` URI."""
    return unquote(urlparse(uri).path) if uri.startswith("file:") else uri


def address(uri: str) -> str:
    """The address of a table as our file systems take it: delta-rs makes a URL of it, in which a space is ``%20``."""
    return local_path(uri) if is_local(uri) else unquote(uri)


def canonical(source_file: str) -> str:
    """The ledger's path of a file that Spark's ``_metadata.file_path`` names (``file:///a%20b`` is ``/a b``)."""
    if source_file.startswith("file:"):
        return "/" + unquote(source_file[len("file:") :]).lstrip("/")
    return unquote(source_file)
