"""Any kind of table, outcome and row-aligned extra, read and checked."""
