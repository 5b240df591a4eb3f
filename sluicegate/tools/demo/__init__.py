"""``make try`` and ``make demo``: sample files through all layers, by hand and in a real Airflow."""
