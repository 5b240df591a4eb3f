"""Concurrent execution of tasks in dependency order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter

# Seconds after which what still runs after an interrupt is stopped once more.
STOPPED_EVERY = 1.0


def side_by_side(
    needs: Mapping[str, Iterable[str]],
    work: Callable[[str], bool | None],
    most: int,
    stop: Callable[[], None] = lambda: None,
    leave: Callable[[str, list[str]], None] | None = None,
) -> dict[str, BaseException]:
    """Runs each task once all tasks it needs are done, even where one of them failed unless such a task is to be left.

    Args:
        needs: for each task by name, the names of those that come before it.
        work: runs a task; False if it had to leave it as it is, so that those that need it are left, too.
        most: tasks that run at a time.
        stop: ends what tasks are waiting for; called again and again after an interrupt until those that run end.
        leave: takes a task that is not run as others that it needs failed or were left, and their names; without it
            tasks are run all the same.

    Returns:
        what tasks raised, in the order of ``needs``.

    Raises:
        CycleError: tasks need each other.
    """
    order = TopologicalSorter(needs)
    order.prepare()
    running: dict[Future[bool | None], str] = {}
    raised: dict[str, BaseException] = {}
    left: set[str] = set()
    with ThreadPoolExecutor(most) as pool:
        try:
            while order.is_active():
                for name in sorted(order.get_ready(), key=[*needs].index):
                    missing = [need for need in needs[name] if need in raised or need in left]
                    if missing and leave is not None:
                        leave(name, missing)
                        left.add(name)
                        order.done(name)
                    else:
                        running[pool.submit(work, name)] = name
                if not running:  # those that were left may have made others ready
                    continue
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    error = future.exception()
                    if error is not None:
                        raised[name] = error
                    elif future.result() is False:
                        left.add(name)
                    order.done(name)
        except (KeyboardInterrupt, SystemExit):
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            begun = [future for future in running if not future.cancelled()]
            while wait(begun, timeout=STOPPED_EVERY).not_done:  # one may have been between two queries
                stop()
            raise
    return {name: raised[name] for name in needs if name in raised}
