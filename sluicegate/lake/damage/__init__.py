"""Detection and repair of Delta tables on a local disk after a power cut."""
