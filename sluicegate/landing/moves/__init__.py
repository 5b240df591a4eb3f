"""Files that leave their place in landing: moved, archived or deleted after the commit of their rows."""

from __future__ import annotations
