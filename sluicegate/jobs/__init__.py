"""Jobs that spark-submit runs."""
