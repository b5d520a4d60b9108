"""The currency of offleash: problems, entries, samples, verdicts, tallies, and the run folder on disk."""
