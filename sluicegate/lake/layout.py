"""Layout of the lake: addresses of a pipeline's tables, and local paths and URIs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from sluicegate.errors import LakeUnsupported

LAYERS = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class Lake:
    """Addresses of one pipeline's tables.

    Attributes:
        root: path or URI of the lake.
        pipeline: name of the pipeline.
    """

    root: str
    pipeline: str

    def __post_init__(self) -> None:
        """Refuse a root that Spark and delta-rs would resolve differently, or that delta-rs cannot open.

        Raises:
            LakeUnsupported: the path has one of the characters ``#?%[]^|\\`` in it.
        """
        if is_local(self.root) and (odd := set(self.root) & set("#?%[]^|\\")):
            cause = f"delta-rs, which opens tables beside Spark, cannot open a path with {' '.join(sorted(odd))}"
            message = f"{self.root} cannot be the root of a lake"
            raise LakeUnsupported(message, cause=cause, hint="choose another with --lake")

    def _path(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), self.pipeline, *parts))

    def table(self, layer: str, name: str) -> str:
        """Return ``{lake}/{pipeline}/{layer}/{name}``."""
        return self._path(layer, name)

    def quarantine(self, name: str) -> str:
        """Return the quarantine of silver table ``name``."""
        return self._path("silver", f"{name}_quarantine")

    def set_aside(self, name: str) -> str:
        """Return the table of records in neither silver nor quarantine: duplicates, superseded, dropped."""
        return self._path("_state", f"{name}_set_aside")

    def discards(self, name: str) -> str:
        """Return the table of discarded records in the quarantine of silver table ``name``."""
        return self._path("_state", f"{name}_discarded")

    def group_state(self, name: str) -> str:
        """Return the aggregate state of gold table ``name``, one row per group."""
        return self._path("_state", f"{name}_groups")

    def checkpoint(self, name: str) -> str:
        """Return Spark's checkpoint of gold table ``name``, if it is a streaming aggregation."""
        return self._path("_state", f"{name}_checkpoint")

    def ledger(self, name: str) -> str:
        """Return the ledger of bronze table ``name``."""
        return self._path("_ledger", name)

    def file_status(self, name: str) -> str:
        """Return the file status of each landed file of bronze table ``name``."""
        return self._path("_ledger", f"{name}_outcome")

    def schemas(self, name: str) -> str:
        """Return the schema history of bronze table ``name``."""
        return self._path("_schemas", name)

    def archive(self, name: str) -> str:
        """Return the archive log of bronze table ``name``: files moved or deleted from landing."""
        return self._path("_ledger", f"{name}_archive")

    @property
    def catalog_registry(self) -> str:
        """File that lists the tables registered in the catalog."""
        return self._path("_state", "_catalog.json")

    def proof(self, layer: str, name: str) -> str:
        """Return the file with what the last verification has proved of a table."""
        return self._path("_state", "_proofs", f"{layer}.{name}.json")

    @property
    def databases(self) -> str:
        """Folder of the catalog's databases, for tables that users create; ours lie elsewhere."""
        return "/".join((self.root.rstrip("/"), "_databases"))

    @property
    def target(self) -> str:
        """File with the name of the target that the tables belong to."""
        return self._path("_target")

    @property
    def events(self) -> str:
        """Event log: one row for each commit of a run."""
        return self._path("_events")

    @property
    def streams(self) -> str:
        """Folder in which continuous runs are registered."""
        return self._path("_streams")

    @property
    def locks(self) -> str:
        """The folder of the pipeline's locks."""
        return self._path("_locks")

    def lock(self, name: str) -> str:
        """Return a lock of the pipeline: a file on local disk, a lease on an object store."""
        if is_local(self.root):
            return f"{self.locks}/{name}.lock"
        return f"{self.locks}/{name}"


def rejected_table(target: str) -> str:
    """Return ``{table}_rejected``, the rows of the last refused batch, by address or name of the table."""
    return f"{target}_rejected"


def layer_of(uri: str) -> str:
    """Return the layer in the address of a table."""
    return uri.rstrip("/").split("/")[-2]


def is_local(uri: str) -> bool:
    """Return whether a path or URI is on a file system of this machine."""
    return urlparse(uri).scheme in ("", "file")


def local_path(uri: str) -> str:
    """Return the path of a local path or ``file:`` URI."""
    if uri.startswith("file:"):
        return unquote(urlparse(uri).path)
    return uri


def address(uri: str) -> str:
    """Return the address of a table for our file systems; delta-rs gives a URL, with ``%20`` for a space."""
    if is_local(uri):
        return local_path(uri)
    return unquote(uri)


def to_ledger_path(source_file: str) -> str:
    """Convert Spark's ``_metadata.file_path`` to the ledger's path (``file:///a%20b`` is ``/a b``)."""
    if source_file.startswith("file:"):
        return "/" + unquote(source_file[len("file:") :]).lstrip("/")
    return unquote(source_file)
