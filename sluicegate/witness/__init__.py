"""A second reading of landed files that shares no code with the engine: Python's csv and json, pyarrow and DuckDB."""
