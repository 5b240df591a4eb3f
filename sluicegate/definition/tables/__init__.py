"""Fields of the tables of a definition, with what the fields of one table demand of each other."""

from __future__ import annotations
