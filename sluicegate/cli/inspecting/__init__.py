"""Commands that show the state of pipelines and write nothing to a lake."""

from __future__ import annotations
