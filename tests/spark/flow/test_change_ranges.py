"""Changes of a source by a query and by a stream: whatever commits they are of, the same rows come of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.delivery_world import without_streams
from tests.support.gold_world import GoldWorld, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.release]

SUMS = {"sums": kept("SELECT g, count(*) AS n, sum(x) AS s, max(k) AS k FROM t GROUP BY g")}
WRITE = "INSERT INTO {t} (id, g, k, x) VALUES "


@pytest.mark.parametrize("queries", [False, True], ids=["by a stream", "by a query"])
def test_commits_of_any_kind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: bool
) -> None:
    if queries:
        without_streams(monkeypatch)
    world = GoldWorld(tmp_path, SUMS, spark)
    world.add([(i, "ab"[i % 2], i, float(i), None, None, None, None, None) for i in range(6)])
    world.run()

    def after(*statements: str) -> str:
        for statement in statements:
            world.sql(statement)
        report = world.run()["sums"]
        assert world.rows("sums") == world.expected("sums")
        assert world.run()["sums"].state == "idle"
        return report.state

    assert after("ALTER TABLE {t} ADD COLUMNS (more STRING)", WRITE + "(10, 'c', 1, 1.5)") == "written"
    assert after("UPDATE {t} SET x = x + 1 WHERE id < 3") == "written"
    assert after("DELETE FROM {t} WHERE id IN (0, 10)") == "written"
    assert after("DELETE FROM {t} WHERE id = 77", "UPDATE {t} SET x = 0 WHERE id = 77") == "idle"
    assert after(WRITE + "(11, 'c', 1, 1.5)", "OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 11") == "written"
    assert after(WRITE + "(15, 'c', 1, 1.5)", WRITE + "(16, 'a', 1, 1.5)") == "written"
    assert after("OPTIMIZE {t}") == "written"
    merge = "MERGE INTO {t} AS t USING (SELECT 1 AS id UNION ALL SELECT 12) AS s ON t.id = s.id "
    assert after(merge + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)") == "written"
    assert after(merge + "WHEN MATCHED AND t.x > 1e9 THEN DELETE") in ("written", "idle")
    assert after("RESTORE TABLE {t} TO VERSION AS OF 2", WRITE + "(13, 'b', 9, 0.5)") == "written"
    feed = "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = "
    assert after(feed + "false)", WRITE + "(14, 'b', 9, 0.5)", feed + "true)") == "rebuilt"
    world.sql("UPDATE {t} SET x = 7 WHERE id = 2")
    shutil.rmtree(Path(world.silver) / "_change_data")
    assert after() == "rebuilt"
