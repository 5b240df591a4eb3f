"""Landed file to bronze row."""
