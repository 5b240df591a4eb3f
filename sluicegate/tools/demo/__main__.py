"""``python -m sluicegate.tools.demo``."""

from __future__ import annotations

import sys

from sluicegate.tools.demo.demo import main

if __name__ == "__main__":
    sys.exit(main())
