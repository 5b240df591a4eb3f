"""Starts jobs, from outside of Spark."""
