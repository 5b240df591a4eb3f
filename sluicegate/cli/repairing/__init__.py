"""Commands that repair a pipeline: re-read files, replay or discard records, rename."""

from __future__ import annotations
