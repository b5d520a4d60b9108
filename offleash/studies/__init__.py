"""Studies: several models drawn, judged and compared in one command, from flags or from a file."""
