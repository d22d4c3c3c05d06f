"""Probes: questions with gold answers, made by rules from the raw session before any strategy runs.

One category a file, each with `name`, `version`, `stratified` (equal counts per depth fifth, or not), `per_cut` (how
many at most) and `propose(view)`, which yields candidates. `soundness` decides which of them are kept, `bank` picks
among those and freezes them.
"""
