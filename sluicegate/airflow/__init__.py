"""Airflow: a deferrable sensor for landed files, an operator that submits a job, a DAG for each pipeline."""
