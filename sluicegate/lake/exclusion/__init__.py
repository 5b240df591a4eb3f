"""One writer at a time: locks, leases, fences, and which pipeline owns a table."""

from __future__ import annotations
