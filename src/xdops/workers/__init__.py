"""Runs in turn, in several processes, or on the machines of a Ray cluster: each keeps its own folder, and is resumed if it dies."""

from xdops.workers.jobs import InTurn, Job, Racers, Workers

__all__ = ["InTurn", "Job", "Racers", "Workers"]
