"""Execute tasks concurrently in dependency order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

# Seconds after which what still runs after an interrupt is stopped once more.
STOPPED_EVERY = 1.0


def run_side_by_side(
    needs: Mapping[str, Iterable[str]],
    work: Callable[[str], bool | None],
    most: int,
    stop: Callable[[], None] = lambda: None,
    leave: Callable[[str, list[str]], None] | None = None,
) -> dict[str, BaseException]:
    """Run each task after all that it needs, even if one failed, unless such tasks are to be left.

    Args:
        needs: for each task by name, the tasks that must precede it.
        work: runs a task; returns False if the task was left, so that those that need it are left, too.
        most: maximum number of concurrent tasks.
        stop: ends what tasks are waiting for; called again and again after an interrupt until those that run end.
        leave: receives a task that is left because others that it needs failed or were left, and their names; else
            such tasks run anyway.

    Returns:
        errors of tasks, in the order of ``needs``.

    Raises:
        CycleError: tasks need each other.
    """
    order = TopologicalSorter(needs)
    order.prepare()
    with ThreadPoolExecutor(most) as pool:
        tasks = _Tasks(needs, work, leave, order, pool)
        try:
            while order.is_active():
                tasks.start_ready()
                tasks.wait()
        except (KeyboardInterrupt, SystemExit):
            pool.shutdown(wait=False, cancel_futures=True)
            tasks.stop(stop)
            raise
    return {name: tasks.raised[name] for name in needs if name in tasks.raised}


@dataclass
class _Tasks:
    """Tasks with their state: waiting, running, done.

    Attributes:
        needs: as in ``run_side_by_side``, like ``work`` and ``leave``.
        order: sorter that gives the ready tasks.
        pool: pool that runs them.
        running: running tasks.
        raised: errors of failed tasks.
        skipped: tasks that were left, or that left their table.
    """

    needs: Mapping[str, Iterable[str]]
    work: Callable[[str], bool | None]
    leave: Callable[[str, list[str]], None] | None
    order: TopologicalSorter[str]
    pool: ThreadPoolExecutor
    running: dict[Future[bool | None], str] = field(default_factory=dict)
    raised: dict[str, BaseException] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)

    def start_ready(self) -> None:
        """Start the ready tasks, in the order of ``needs``, or leave them."""
        for name in sorted(self.order.get_ready(), key=[*self.needs].index):
            missing = [need for need in self.needs[name] if need in self.raised or need in self.skipped]
            if not missing or self.leave is None:
                self.running[self.pool.submit(self.work, name)] = name
                continue
            self.leave(name, missing)
            self.skipped.add(name)
            self.order.done(name)

    def wait(self) -> None:
        """Wait until a task is done; return at once if none runs, since tasks that were left may free others."""
        if not self.running:
            return
        done_futures, _ = wait(self.running, return_when=FIRST_COMPLETED)
        for future in done_futures:
            name = self.running.pop(future)
            error = future.exception()
            if error is not None:
                self.raised[name] = error
            elif future.result() is False:
                self.skipped.add(name)
            self.order.done(name)

    def stop(self, stop: Callable[[], None]) -> None:
        """Stop the running tasks."""
        stop()
        begun = [future for future in self.running if not future.cancelled()]
        while wait(begun, timeout=STOPPED_EVERY).not_done:  # one may have been between two queries
            stop()
