"""Effects of a changed definition on stored rows."""

from __future__ import annotations
