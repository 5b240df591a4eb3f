"""One writer at a time: locks, leases, fences, and which target owns a pipeline's tables.

There is one lock, ``lock.pipeline_lock``: ``flock`` on a disk, on an object store a lease that its holder claims and
renews. A verification needs no more; an entry of skipped files takes the tables for its target once there are some to
enter. The others add what they need:

- ``target_ownership.lock_for_target``: that the tables belong to the target; for a command that writes without a job;
- ``fence.sole_writer``: that no Spark Connect server still writes for a former holder, and no damaged commit is read;
  for a rename, which is of all targets;
- ``jobs.base.hold_write_lock``: both, and an end of the server's work with the job; for every job that writes.

``lock.turn`` is held before the lock, by who is about to start a job that takes it.
"""

from __future__ import annotations
