"""Rows that are not in memory: files, and the memory of other machines, read part by part, whose sums are joined."""
