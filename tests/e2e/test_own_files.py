"""From files of one's own to a gold table, by the three commands that the page on it names."""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.more]

PAGE = (ROOT / "docs" / "howto" / "your-own-files.md").read_text()


def test_three_commands_lead_from_a_file_to_its_gold_table(tmp_path: Path) -> None:
    block = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    commands = block[1].splitlines()
    assert len(commands) == 3
    days = [f"2024-03-{random.Random(n).randint(1, 28):02d}" for n in range(2000)]
    rows = [f"{n},{day} 08:00:00,c{n % 50},{n % 9 + 1}" for n, day in enumerate(days)]
    orders = tmp_path / "orders.csv"
    orders.write_text("\n".join(["order_id,ordered_at,customer,quantity", *rows]) + "\n")
    os.utime(orders, (time.time() - 60,) * 2)

    said = ""
    for command in commands:
        program, *words = shlex.split(command)
        assert program == ".venv/bin/sluicegate"
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "sluicegate.cli", *words],
            cwd=tmp_path, env=os.environ | {"SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        print(f"{time.monotonic() - began:6.1f} s  {command}")
        assert done.returncode == 0, done.stdout + done.stderr
        said = done.stdout
    found = {line[:10]: int(line.split()[2].replace(",", "")) for line in re.findall(r"^2024-.*$", said, re.MULTILINE)}
    counted = Counter(days)
    assert found == {day: counted[day] for day in sorted(counted)[: len(found)]}
    assert len(found) == 5
