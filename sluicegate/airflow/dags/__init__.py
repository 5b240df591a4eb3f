"""What the DAGs of a definition are made of: their arguments, tasks, forms and documentation."""

from __future__ import annotations
