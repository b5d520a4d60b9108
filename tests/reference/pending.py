"""Checks that wait for a change of the package: each is switched on here, in one place, when the change is merged.

The reference follows the definitions; where the package does something else today, the check of that behaviour is off
and today's is checked instead where it is determined, so that the change cannot be merged without being noticed.
"""

TESTS_USE_ALL_COUNTS = False
"""Exchange null, bounds, lists, strength and confirmation of runs with different budgets use all samples of each run,
with the classes seen at each run's own n. Off: the first k samples (logs), or k at random (counts: not checked)."""

EVERY_BUDGET = False
"""Crossing and equivalent budget are interpolated between neighbouring whole numbers. Off: between the budgets of a
coarser grid, which from about eight samples on moves them by up to `GRID`, relative."""

GRID = 0.015

CORRECT_ENTROPY_AT_EQUAL_N = False
"""`entropy_correct` is rarefied to equal n on the same problems. Off: plug-in, on the problems of each run."""

RULES_ARE_THINNED = False
"""The table of the rules `above` and `confident` with k < n is the expectation over all ways to keep k of the samples.
Off: the class in the first k samples (logs), or in k at random (counts: not checked)."""
