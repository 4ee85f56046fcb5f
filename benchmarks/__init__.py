"""Races against other libraries, and measurements of growth and memory: ``make bench``, or ``python -m benchmarks``.

Each part is a module with a function `run(options)` that returns plain data for its JSON file, and one that puts that
data into words for `RESULTS.md`. This file imports nothing: peers load the package in environments of their own.
"""
