"""What a statistic must exceed, and what it means: criteria and tail probabilities."""
