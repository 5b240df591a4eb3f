"""Bronze record to silver, quarantine or set-aside row."""
