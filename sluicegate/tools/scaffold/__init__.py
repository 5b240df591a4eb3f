"""``sluicegate new``: a look at files, what it suggests, and a definition written from it. No Spark is started."""

from __future__ import annotations
