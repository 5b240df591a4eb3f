"""What has landed: discovery, the ledger and the status of each file. No Spark."""
