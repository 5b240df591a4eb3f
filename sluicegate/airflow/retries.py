"""How tasks are retried, and when they are ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

ENDS_WITHIN = timedelta(hours=2)

# For jobs: what a retry cannot change fails at once (see ``run_request.failure``). The rest are conflicts with another
# writer, lost executors, a full disk, a network outage: the longer it lasts, the longer the delay.
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 3.0,
    "max_retry_delay": timedelta(minutes=10),
}
# For tasks that only read.
READ_RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}
