"""Whatever a user names (run folder, log, glob, counts, problem set) to runs and problems."""
