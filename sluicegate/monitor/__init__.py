"""Looks at tables and never starts a JVM."""
