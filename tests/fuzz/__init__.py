"""Hostile input for every reader and every door; see `__main__`."""
