"""A user's arrays: reading, layout, checks, splits."""
