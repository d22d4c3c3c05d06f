"""Measure what context compaction loses."""

__version__ = "0.1.0"
