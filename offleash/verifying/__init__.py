"""From samples to verdicts: cases, the judge and its cache, run folders, rows and logs."""
