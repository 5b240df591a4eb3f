"""The name by which notebooks import a session: ``from sluicegate.session import session_inside``."""

from __future__ import annotations

from sluicegate.spark.session import session_inside

__all__ = ["session_inside"]
