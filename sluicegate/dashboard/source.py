"""Definitions and tables of the dashboard: each is read once for each of its versions, however often it is requested.

A page is requested by many people, and reading a table of 100,000 commits takes longer than a page may. So a table
stays open until its log has another version, and what was computed from it stays with that version. What has no
version, as the list of a landing folder, is computed in the background: whoever comes first waits for it a moment, and
sees what is known.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from deltalake import DeltaTable

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.definition.reading.loader import FILE
from sluicegate.errors import PipelineMissing, SluicegateError, StoreUnreachable
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.table import Table, Tables
from sluicegate.settings import Settings
from sluicegate.storage import concurrent, filesystems
from sluicegate.storage.store_errors import translate_errors

T = TypeVar("T")

REMEMBERED = 4_000
"""Tables and results that stay in memory; the least used go first."""

PATIENCE = 0.12
"""Seconds that a page waits for what is computed in the background."""

FRESH_FOR = 5.0
"""Seconds for which a result of the background is not computed a second time."""

REST = 20
"""How many times as long as it took a result is not computed a second time: the background has the rest of a core."""

UNSEEN_FOR = 2.0
"""Seconds for which a table on an object store is not compared with its log: that takes two requests to the store."""

DOWN_FOR = 5.0
"""Seconds for which a store that did not answer is not asked again: a page reads many tables, one after the other."""


@dataclass(frozen=True)
class Answer(Generic[T]):
    """Result of the background.

    Attributes:
        value: the result; None while there is none yet.
        since: when it was computed (UTC).
        error: why there is none.
    """

    value: T | None = None
    since: datetime | None = None
    error: SluicegateError | None = None


class _Handle(Table):
    """A handle whose table is that of a source, and with it what was read of the same version before."""

    def __init__(self, uri: str, source: Source) -> None:
        super().__init__(uri)
        self._source = source

    @cached_property
    def delta(self) -> DeltaTable | None:
        """See ``Table.delta``."""
        return self._source.table(self.uri)

    @cached_property
    def restores(self) -> offsets.RestoreHistory | None:
        """See ``Table.restores``."""
        return self._compute_once("restores", offsets.restore_history)

    @cached_property
    def last_own_commit(self) -> log.Commit | None:
        """See ``Table.last_own_commit``: with what RESTOREs left, so that the log is read once for both."""
        if self.restores is not None:
            return self.restores.ours
        return None

    @property
    def rows(self) -> int:
        """See ``Table.rows``."""
        return self._compute_once("rows", tables.rows) or 0

    @cached_property
    def dataset(self) -> Any:
        """See ``Table.dataset``."""
        if self.delta is not None:
            return self._compute_once("dataset", tables.dataset)
        return super().dataset

    def _compute_once(self, key: str, compute: Callable[[DeltaTable], T]) -> T | None:
        """Compute a value from the pinned version, unless it is cached."""
        if self.delta is None:
            return None
        return self._source.compute_for_version(self.uri, self.delta, key, compute)


class _Handles(Tables):
    """Handles whose tables are those of a source."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source

    def __getitem__(self, uri: str) -> Table:
        return self._handles.setdefault(uri, _Handle(uri, self._source))


@dataclass
class _Opened:
    table: DeltaTable | None
    commit: Any
    check_time: float


class Source:
    """Definitions, tables and results of a lake, remembered by version. For many threads at a time.

    Args:
        settings: where definitions, lake and landing are.
        patience: seconds to wait for the background; None to wait until it has its result.
    """

    def __init__(self, settings: Settings, patience: float | None = PATIENCE) -> None:
        self.settings = settings
        self.patience = patience
        self._lock = threading.Lock()
        self._memory: OrderedDict[Hashable, Any] = OrderedDict()
        self._running: dict[Hashable, Future[Any]] = {}
        self._workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="lakehouse")

    # --- definitions -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """List the names of the pipelines."""
        return definition.names(self.settings.pipelines)

    def pipeline(self, name: str) -> Pipeline:
        """Load the definition of a pipeline, again once a file of its folder has changed.

        Raises:
            PipelineMissing: there is no such pipeline.
            DefinitionError: its definition has mistakes.
        """
        if name not in self.names():
            raise PipelineMissing(f"unknown pipeline {name}")
        folder = self.settings.pipelines / name
        stamps = sorted(
            (str(file), file.stat().st_mtime_ns) for file in folder.rglob("*") if _is_definition_file(file.name)
        )
        loaded: Pipeline = self.remember(
            ("pipeline", name), tuple(stamps), lambda: definition.load(name, self.settings, of_many=True)
        )
        return loaded

    @staticmethod
    def lake(pipeline: Pipeline) -> layout.Lake:
        """Return the addresses of a pipeline's tables."""
        return layout.Lake(pipeline.settings.lake, pipeline.name)

    # --- tables ------------------------------------------------------------------------------------------------------

    def table(self, uri: str) -> DeltaTable | None:
        """Open the table at an address in its newest version, None if there is none.

        Raises:
            NotADeltaTable: there are files, but no Delta log among them.
            SluicegateError: the store cannot be read.
        """
        down: tuple[StoreUnreachable, float] | None = self._recall(("down", _store_of(uri)))
        if down is not None and time.monotonic() < down[1]:
            raise down[0].with_traceback(None)
        try:
            with translate_errors():
                return self._newest_table(uri)
        except StoreUnreachable as error:
            self._store(("down", _store_of(uri)), (error, time.monotonic() + DOWN_FOR))
            raise

    def _newest_table(self, uri: str) -> DeltaTable | None:
        last_opened: _Opened | None = self._recall(("table", uri))
        if last_opened is not None and self._is_newest(uri, last_opened):
            return last_opened.table
        opened = tables.delta_table(uri)
        commit = None
        if opened is not None:
            commit = _commit(uri, opened.version())
        self._store(("table", uri), _Opened(opened, commit, time.monotonic()))
        return opened

    def _is_newest(self, uri: str, opened: _Opened) -> bool:
        if opened.table is None:
            return False
        if not layout.is_local(uri) and time.monotonic() - opened.check_time < UNSEEN_FOR:
            return True
        version = opened.table.version()
        # A table that was deleted and made again may have a commit of this number, too, but not of that time.
        newest = _commit(uri, version) == opened.commit and _commit(uri, version + 1) is None
        opened.check_time = time.monotonic()
        return newest

    def table_handles(self) -> Tables:
        """Return these table handles in the form that other packages take, so that they open no table twice."""
        return _Handles(self)

    def open_together(self, uris: Iterable[str]) -> None:
        """Open the tables that are not open yet, several at a time: one after the other, a hundred take half a second.

        A table that fails to open raises its error when it is read.
        """

        def open_table(uri: str) -> None:
            with suppress(SluicegateError):
                self.table(uri)

        new = [uri for uri in uris if self._recall(("table", uri)) is None]
        # With the store's keys of this request.
        concurrent.map_concurrently(
            lambda job: job[0].run(open_table, job[1]), [(contextvars.copy_context(), uri) for uri in new]
        )

    def compute_once(self, uri: str, key: Hashable, compute: Callable[[DeltaTable], T]) -> T | None:
        """Compute a value from a table once for each of its versions, None if there is no table."""
        table = self.table(uri)
        if table is None:
            return None
        return self.compute_for_version(uri, table, key, compute)

    def compute_for_version(self, uri: str, table: DeltaTable, key: Hashable, compute: Callable[[DeltaTable], T]) -> T:
        """Compute a value from a given version of a table, and cache it until another version replaces it."""
        return self.remember((uri, key), (tables.table_id(table), table.version()), lambda: compute(table))

    def dataset(self, uri: str) -> Any:
        """Open a table as an Arrow dataset, None if there is none."""
        return self.compute_once(uri, "dataset", tables.dataset)

    def rows(self, uri: str) -> int:
        """Count the rows of a table from its log, 0 if there is none."""
        return self.compute_once(uri, "rows", tables.rows) or 0

    # --- background --------------------------------------------------------------------------------------------------

    def compute_soon(self, key: Hashable, compute: Callable[[], T], until: float | None = None) -> Answer[T]:
        """Return the newest result of a slow computation, and start the computation if that result is out of date.

        Args:
            key: cache key of the result.
            compute: the computation.
            until: deadline for the wait, in time of ``time.monotonic()``; by default the source's patience from now on.
        """
        answered: tuple[Answer[T], float] | None = self._recall(("soon", key))
        if answered is not None and time.monotonic() < answered[1] and self.patience is not None:
            return answered[0]
        with self._lock:
            running = self._running.get(key)
            if running is None:
                in_context = contextvars.copy_context().run  # with the store's keys of this request
                running = self._running[key] = self._workers.submit(in_context, self._answer, key, compute)
        wait = self.patience
        if until is not None and wait is not None:
            wait = max(0.0, until - time.monotonic())
        try:
            return running.result(wait)  # type: ignore[no-any-return]
        except NotYet:
            if answered is not None:
                return answered[0]
            return Answer()

    def deadline(self) -> float:
        """Return the ``time.monotonic()`` until which a page waits for all of its results together."""
        return time.monotonic() + (self.patience or 0.0)

    def _answer(self, key: Hashable, compute: Callable[[], T]) -> Answer[T]:
        began = time.monotonic()
        try:
            with translate_errors():
                answer = Answer(compute(), datetime.now(UTC))
        except SluicegateError as error:
            answer = Answer(None, datetime.now(UTC), error)
        finally:
            with self._lock:
                self._running.pop(key, None)
        ended = time.monotonic()
        self._store(("soon", key), (answer, ended + max(FRESH_FOR, REST * (ended - began))))
        return answer

    # --- memory ------------------------------------------------------------------------------------------------------

    def remember(self, key: Hashable, version: Hashable, compute: Callable[[], T]) -> T:
        """Return a cached result, or compute it if its version has changed.

        Args:
            key: cache key of the result.
            version: version of the inputs, cached with the result.
            compute: the computation.
        """
        remembered = self._recall(key)
        if remembered is not None and remembered[0] == version:
            return remembered[1]  # type: ignore[no-any-return]
        value = compute()
        self._store(key, (version, value))
        return value

    def _recall(self, key: Hashable) -> Any:
        with self._lock:
            if key in self._memory:
                self._memory.move_to_end(key)
            return self._memory.get(key)

    def _store(self, key: Hashable, value: Any) -> None:
        with self._lock:
            self._memory[key] = value
            self._memory.move_to_end(key)
            while len(self._memory) > REMEMBERED:
                self._memory.popitem(last=False)


def _is_definition_file(name: str) -> bool:
    return name == FILE or name.endswith((".sql", ".py", ".yaml", ".yml"))


def _store_of(uri: str) -> str:
    """Return scheme and bucket of an address, empty for a path."""
    scheme, separator, path = uri.partition("://")
    if separator:
        return f"{scheme}://{path.partition('/')[0]}"
    return ""


def _commit(uri: str, version: int) -> Any:
    """Return size and time of a commit's file, None if there is none."""
    return filesystems.file_facts(log.commit_file(uri, version))
