"""Data with many rows: every question is a sum over blocks of rows."""
