"""What was found, what it keeps of the data, and questions about it."""
