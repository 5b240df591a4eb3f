"""How properties are tried in Spark, where each example takes many seconds."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings


def in_spark(examples: int) -> settings:
    """The same examples each time, as many as ``SLUICEGATE_EXAMPLES`` says, or so many; shrinking takes minutes.

    With 0 only those that the test itself names are tried, unless that variable asks for more.
    """
    examples = int(os.environ.get("SLUICEGATE_EXAMPLES", examples))
    return settings(
        max_examples=max(examples, 1),
        derandomize=True,
        deadline=None,
        phases=[Phase.explicit, *([Phase.reuse, Phase.generate] if examples else [])],
        suppress_health_check=list(HealthCheck),
    )
