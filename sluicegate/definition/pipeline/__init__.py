"""A definition as a whole: its header, params, targets, schedule, alerts and views."""

from __future__ import annotations
