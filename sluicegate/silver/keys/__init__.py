"""Records of one key: duplicates, deletes, and slowly changing dimensions."""

from __future__ import annotations
