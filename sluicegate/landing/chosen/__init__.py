"""Files that a person chooses: copies, files that are read again, files that are skipped by a list."""

from __future__ import annotations
