"""Commands that make a pipeline and try it: from files, from Delta Live Tables, from contracts, and its cases."""

from __future__ import annotations
