"""Records beside the table: quarantined, set aside, rescued and de-identified."""

from __future__ import annotations
