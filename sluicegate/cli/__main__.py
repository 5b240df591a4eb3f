"""``python -m sluicegate.cli``."""

from __future__ import annotations

from sluicegate.cli.app import main

if __name__ == "__main__":
    main()
