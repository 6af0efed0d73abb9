"""Measuring XD-operations against the layers they replace, side by side in one process."""
