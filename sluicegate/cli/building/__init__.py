"""Commands that create a pipeline from files, Delta Live Tables or data contracts, and that test one."""

from __future__ import annotations
