"""Loading what a user names (run folder, log, glob, counts, problem set) as runs and problems."""
