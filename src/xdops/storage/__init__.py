"""The floor: files that are whole or not there, locks, comparing settings."""
