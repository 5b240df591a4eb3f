"""How long a client goes back to a Spark Connect server that it has lost: some forty seconds, once for all calls."""

from __future__ import annotations

from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicyState

# Attempts of a call, and the longest pause between two of them in milliseconds. Spark's own fifteen take ten minutes,
# in which the pipeline would be locked.
RETRIES = 10
LONGEST_PAUSE = 6_000


class Patience(DefaultPolicy):
    """Spark's own policy, but that no other call waits once one has waited in vain: the server is gone for all."""

    def __init__(self) -> None:
        super().__init__(max_retries=RETRIES, max_backoff=LONGEST_PAUSE)
        self.given_up = False

    def can_retry(self, e: BaseException) -> bool:
        """Whether an error is one of a connection that may come back."""
        return not self.given_up and super().can_retry(e)

    def to_state(self) -> RetryPolicyState:
        """The attempts of one call."""
        return _Attempts(self)


class _Attempts(RetryPolicyState):
    def __init__(self, policy: Patience) -> None:
        super().__init__(policy)
        self._patience = policy

    def next_attempt(self, exception: BaseException | None = None) -> int | None:
        """Milliseconds until the next attempt; None if there is none."""
        if self._patience.given_up:
            return None
        pause = super().next_attempt(exception)
        if pause is None:
            self._patience.given_up = True
        return pause
