"""Runs of a pipeline from outside of Spark: requests, and the jobs submitted for them."""
