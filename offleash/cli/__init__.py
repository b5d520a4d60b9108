"""The command line, generated from the signatures of the public functions; no logic."""
