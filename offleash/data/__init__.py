"""Our tables: problems, samples, verdicts, tallies and scores, and the run folder that holds them on disk."""
