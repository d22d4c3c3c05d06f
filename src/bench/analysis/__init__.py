"""Finished runs as tables. Nothing here computes a measure: it reads summaries."""
