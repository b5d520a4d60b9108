"""Data types and storage: tables of problems, samples, verdicts and scores, tallies, and the run folder."""
