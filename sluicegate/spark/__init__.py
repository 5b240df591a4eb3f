"""The Spark runtime: its jars, its configuration, its sessions and its errors."""
