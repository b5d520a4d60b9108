"""Verifying: from samples to verdicts, for run folders, files of rows and logs, with a judge and its cache."""
