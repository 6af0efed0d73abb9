"""A search over spaces and seeds on one task: its folder and its outcome."""
