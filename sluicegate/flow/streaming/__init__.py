"""Structured Streaming: the availableNow stream over a source, its function and its checkpoint."""

from __future__ import annotations
