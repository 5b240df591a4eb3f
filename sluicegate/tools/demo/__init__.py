"""``make demo``: sample files through a real Airflow."""
