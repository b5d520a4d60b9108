"""Further questions about runs, a folder each: what computes it, what prints it, its JSON and its figures."""
