"""The command line: one function per verb, grouped in files; no logic."""
