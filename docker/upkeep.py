"""Deletes what an Airflow and its Spark leave behind, once a day: ``python docker/upkeep.py``.

Old rows of Airflow's database, by Airflow's own ``airflow db clean``; old log files of tasks, and old event logs of
Spark. It is a service of the compose stack, and no DAG: Airflow 3 keeps its database from tasks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import DateTime, Integer, column, create_engine, delete, exists, table
from sqlalchemy.exc import SQLAlchemyError

DAY = 86_400.0

# The stack has other things to do when it starts.
FIRST_AFTER = 600.0

# Exit code of the last cleaning, for the health check.
STATE = Path("/tmp/upkeep")  # noqa: S108 (the container's own)

# Tables of which old rows go. Not among them: `asset_event`, for which see `clean_events`; `trigger`, since one that
# waits for files may be old and at work; and `dag`, since a file that is away for a month may come back.
TABLES = ("_xcom_archive", "callback", "dag_run", "deadline", "import_error", "job", "log", "task_instance",
          "task_instance_history", "task_reschedule", "xcom")  # fmt: skip

EVENTS = table("asset_event", column("asset_id", Integer), column("timestamp", DateTime(timezone=True)))


def clean_database(before: datetime) -> int:
    """Deletes old rows; the last run of each DAG and the last event of each asset stay.

    Returns:
        exit code; not 0 if that failed.
    """
    options = ["--clean-before-timestamp", before.isoformat(), "--tables", ",".join(TABLES), "--skip-archive", "--yes"]
    code = subprocess.run([sys.executable, "-m", "airflow", "db", "clean", *options], check=False).returncode
    return code or clean_events(before)


def clean_events(before: datetime) -> int:
    """Deletes old events of assets but the last of each, by which a task knows what it has reported.

    Airflow's own command would delete that one as well. Each run leaves an event for each table that it changed.

    Returns:
        exit code; not 0 if that failed.
    """
    newer = EVENTS.alias("newer")
    follows = exists().where(newer.c.asset_id == EVENTS.c.asset_id, newer.c.timestamp > EVENTS.c.timestamp)
    engine = create_engine(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    try:
        with engine.begin() as connection:
            count = connection.execute(delete(EVENTS).where(EVENTS.c.timestamp < before, follows)).rowcount
    except SQLAlchemyError as error:
        print(f"upkeep: could not delete old events of assets: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        engine.dispose()
    print(f"upkeep: events of assets deleted: {count}", flush=True)
    return 0


def delete_files(folder: Path, before: datetime) -> tuple[int, int]:
    """Deletes old files below a folder, and folders that are empty then.

    Returns:
        number of files that are gone, and of those that could not be deleted.
    """
    count = kept = 0
    for parent, _, names in os.walk(folder, topdown=False):
        for file in [Path(parent, name) for name in names]:
            try:
                if file.lstat().st_mtime < before.timestamp():
                    file.unlink()
                    count += 1
            except FileNotFoundError:  # whoever made it was faster
                pass
            except OSError as error:  # the others go all the same
                print(f"upkeep: could not delete {file}: {error.strerror}", file=sys.stderr, flush=True)
                kept += 1
        if Path(parent) != folder:
            with suppress(OSError):  # it is not empty
                os.rmdir(parent)
    return count, kept


def main() -> None:
    """Cleans each day, for ever."""
    days = float(os.environ.get("SLUICEGATE_KEEP_DAYS") or 30)
    folders = [Path(folder) for folder in sys.argv[1:]]
    STATE.write_text("0\n")
    time.sleep(FIRST_AFTER)
    while True:
        before = datetime.now(UTC) - timedelta(days=days)
        code = clean_database(before)
        files = {str(folder): delete_files(folder, before) for folder in folders}
        STATE.write_text(f"{code or int(any(kept for _, kept in files.values()))}\n")
        deleted = {folder: count for folder, (count, _) in files.items()}
        print(
            f"upkeep: before {before:%Y-%m-%d}: airflow db clean ended with {code}; files deleted: {deleted}",
            flush=True,
        )
        time.sleep(DAY)


if __name__ == "__main__":
    main()
