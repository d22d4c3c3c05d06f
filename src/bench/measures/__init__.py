"""Measures: pure functions of a cut, its compaction and its probes. None of them asks a model."""
