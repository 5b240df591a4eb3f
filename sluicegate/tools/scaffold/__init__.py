"""``sluicegate new``: samples files, suggests tables, and writes a definition. No Spark is started."""

from __future__ import annotations
