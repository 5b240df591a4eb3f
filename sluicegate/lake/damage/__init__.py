"""What a power cut leaves of a Delta table on a local disk, and how its newest commits are made once more."""
