"""Data contracts of the Open Data Contract Standard (ODCS) 3.1: from a definition, and into one."""
