"""The named operations: what the paper proves to be XD-operations, each with its K, L, M, b and C."""
