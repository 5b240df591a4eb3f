"""OPTIMIZE, VACUUM and registration in a catalog."""
