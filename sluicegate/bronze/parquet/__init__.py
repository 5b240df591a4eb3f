"""Parquet files with types that Spark refuses."""
