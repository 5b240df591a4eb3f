"""``sluicegate import``: sources of Delta Live Tables converted to a definition, as far as that goes."""

from __future__ import annotations
