"""How far apart operations are, and which named one is nearest."""
