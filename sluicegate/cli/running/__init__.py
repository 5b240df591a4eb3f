"""Commands that run pipelines, and that manage jars, the Spark server, the catalog and maintenance."""

from __future__ import annotations
