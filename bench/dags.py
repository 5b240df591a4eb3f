"""What it costs Airflow to read the DAGs of 1, 20 and 200 pipelines: ``python -m bench.dags``.

The DAG processor reads the DAG file again and again, and each task that starts reads it once more. Both are measured
as Airflow does it, in a process of its own: CPU seconds of its start with Airflow's imports, and those of the file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sluicegate.settings import HOME

PIPELINES = (1, 20, 200)
TIMES = 3

# One DAG file beside a folder of definitions, as in docs/howto/existing-airflow.md.
DAG_FILE = """
from sluicegate.airflow.dag import medallion_dags
from sluicegate.settings import Settings

globals().update(medallion_dags(Settings.of(pipelines={pipelines!r}, landing="/data/landing", lake="/data/lake")))
"""

READ = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
import sluicegate.airflow.dag
began = time.process_time()
bag = DagBag(sys.argv[1], bundle_path=sys.argv[1])
print("FACTS" + json.dumps({
    "errors": bag.import_errors, "dags": len(bag.dags),
    "seconds": time.process_time() - began, "with_imports": time.process_time(),
}))
"""


def pipelines(folder: Path, number: int) -> Path:
    """Makes a folder of DAGs, and one of definitions beside it: copies of the pipeline of heart rates.

    Returns:
        the folder of DAGs.
    """
    source = HOME / "pipelines" / "heart_rate"
    for name in [f"heart_rate_{index:03}" for index in range(number)]:
        copy = folder / "pipelines" / name
        shutil.copytree(source, copy)
        text = (source / "pipeline.yaml").read_text()
        (copy / "pipeline.yaml").write_text(text.replace("name: heart_rate\n", f"name: {name}\n", 1))
    dags = folder / "dags"
    dags.mkdir()
    (dags / "medallion.py").write_text(DAG_FILE.format(pipelines=str(folder / "pipelines")))
    return dags


def read(dags: Path, task_of: str | None = None) -> dict[str, float]:
    """Reads the DAGs as Airflow does.

    Args:
        dags: their folder.
        task_of: the DAG of the task that starts; without it all are read, as by the DAG processor.

    Returns:
        number of ``dags``, CPU ``seconds`` of reading the file, and ``with_imports`` of the whole process.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    env |= {"AIRFLOW_HOME": str(dags.parent / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    if task_of:
        env["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = task_of
    done = subprocess.run([sys.executable, "-c", READ, str(dags)], env=env, capture_output=True, text=True, check=True)
    facts = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("FACTS"))[5:])
    if facts.pop("errors"):
        raise RuntimeError(done.stdout)
    return dict(facts)


def _fastest_read(dags: Path, task_of: str | None = None) -> dict[str, float]:
    return min((read(dags, task_of) for _ in range(TIMES)), key=lambda facts: facts["seconds"])


def main() -> None:
    """Prints the table of docs/sizing.md."""
    print(
        "| pipelines | all DAGs, CPU s | a task that starts, CPU s | with imports, CPU s |\n| --- | --- | --- | --- |"
    )
    for number in PIPELINES:
        with tempfile.TemporaryDirectory() as folder:
            dags = pipelines(Path(folder), number)
            everything, one = _fastest_read(dags), _fastest_read(dags, "heart_rate_000")
            print(f"| {number} | {everything['seconds']:.2f} | {one['seconds']:.2f} | {one['with_imports']:.2f} |")


if __name__ == "__main__":
    main()
