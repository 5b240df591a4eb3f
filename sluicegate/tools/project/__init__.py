"""A project of one's own: its files, and whether this machine can run it."""

from __future__ import annotations
