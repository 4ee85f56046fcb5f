"""What an outcome makes of its columns: fits, statistics and bounds on them."""
