"""Silver change to gold row."""
