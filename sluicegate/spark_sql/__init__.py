"""SQL as text and as a tree, and Spark's types: no table, no session and no definition."""
