"""Categories and groups of columns: codes stay codes."""
