"""Delta tables through delta-rs, without a JVM."""
