"""The forms: ways to evaluate one operation, one file each."""
