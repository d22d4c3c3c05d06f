"""Probes: questions with gold answers, made by rules from the raw session before any strategy runs.

One category a file, each with `name`, `version`, `form` (free: a value or a set that nobody can guess; forced: one of a
few answers, held to chance; abstention: only silence is right), `stratified` (equal counts per depth fifth, or not),
`per_cut` (how many at most) and `propose(view)`, which yields candidates. `soundness` decides which of them are kept, `bank` picks
among those and freezes them.
"""
