"""Statistics with sessions as the sample, not probes: sessions of one project are one cluster in every function.

Formulas and known answers: measurement specification, sections 2.7 and 3. scipy is imported by the functions that need
it. Nothing here asks a model or reads a file; every random draw comes from a seed that the caller gives.
"""

from __future__ import annotations

from bench.stats.clustered import MIN_CLUSTERS, design_effect, mean
from bench.stats.paired import Difference, cochran_q, difference, holm, mcnemar, sign_flip
from bench.stats.planning import Components, components, detectable, planned_error, provable_margin, questions_needed
from bench.stats.proportions import Agreement, agreement, corrected, wilson
from bench.stats.resampling import RESAMPLES, bootstrap, rank_distribution, ratio
from bench.stats.verdicts import Verdict, non_inferiority, sprt, wealth

__all__ = [
    "MIN_CLUSTERS",
    "RESAMPLES",
    "Agreement",
    "Components",
    "Difference",
    "Verdict",
    "agreement",
    "bootstrap",
    "cochran_q",
    "components",
    "corrected",
    "design_effect",
    "detectable",
    "difference",
    "holm",
    "mcnemar",
    "mean",
    "non_inferiority",
    "planned_error",
    "provable_margin",
    "questions_needed",
    "rank_distribution",
    "ratio",
    "sign_flip",
    "sprt",
    "wealth",
    "wilson",
]
