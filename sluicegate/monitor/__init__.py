"""Plan, status, backlog, verification, event log and registry of continuous runs: read by delta-rs, never a JVM."""
