"""Commands that run pipelines, and what a run needs: jars, a Spark server, the catalog, maintenance."""

from __future__ import annotations
