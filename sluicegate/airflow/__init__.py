"""What Airflow runs: a sensor that looks for work, an operator that submits a job, a DAG for each pipeline."""
