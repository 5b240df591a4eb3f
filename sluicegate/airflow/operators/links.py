"""Link from a task's page to the Spark UI of its job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class SparkUI(BaseOperatorLink):
    """Spark UI while a job runs, and the history server afterwards; without either, no link.

    Airflow's server knows a link by its name and XCom, so this class need not be registered there.
    """

    name = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """History server page, which Airflow asks for when the task has ended; empty without a history server.

        Args:
            operator: the ``SluicegateJob`` that has ended.
            ti_key: its task instance.
        """
        server = os.environ.get("SLUICEGATE_HISTORY_SERVER", "").rstrip("/")
        if not operator.logged_as or not is_address(server):
            return ""
        return f"{server}/history/{quote(operator.logged_as, safe='')}/"


def is_address(text: str) -> bool:
    """Whether a text is the address of a page, by HTTP or HTTPS: nothing else becomes a link."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text
