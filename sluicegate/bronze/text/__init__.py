"""Files of text (CSV, JSON, XML, lines): their bytes as characters, and their characters as records."""
