"""Comparing runs: alignment, tallies, support change, evidence, guessing and flips, as text and JSON."""
