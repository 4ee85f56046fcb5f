"""The paper's experiments on real data: `python -m experiments --help`."""
