"""The engine: one source, one target, one batch at a time, committed with the source's offset."""
