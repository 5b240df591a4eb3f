"""What no pipeline needs to run: the SQL shell, tests of pipelines, scaffolds, migration, simulators, the demo."""
