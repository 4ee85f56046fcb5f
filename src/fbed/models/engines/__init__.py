"""Exact answers without fitting every model: bounds, races, sums over rows."""
