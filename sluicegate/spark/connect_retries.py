"""Limit how long a client retries a lost Spark Connect server: some forty seconds, once for all calls."""

from __future__ import annotations

from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicyState

# Attempts of a call, and the longest pause between two of them in milliseconds. Spark's own fifteen take ten minutes,
# in which the pipeline would be locked.
RETRIES = 10
LONGEST_PAUSE = 6_000


class Patience(DefaultPolicy):
    """Retry policy of Spark that ends for all calls once one has waited in vain."""

    def __init__(self) -> None:
        super().__init__(max_retries=RETRIES, max_backoff=LONGEST_PAUSE)
        self.given_up = False

    def can_retry(self, e: BaseException) -> bool:
        """Return whether an error is of a connection that may recover."""
        return not self.given_up and super().can_retry(e)

    def to_state(self) -> RetryPolicyState:
        return _Attempts(self)


class _Attempts(RetryPolicyState):
    def __init__(self, policy: Patience) -> None:
        super().__init__(policy)
        self._patience = policy

    def next_attempt(self, exception: BaseException | None = None) -> int | None:
        """Return the milliseconds until the next attempt; None if there is none."""
        if self._patience.given_up:
            return None
        pause = super().next_attempt(exception)
        if pause is None:
            self._patience.given_up = True
        return pause
