"""The command `fbed`."""
