"""Who judges: one verifier per kind of answer, how answers are extracted, and the sandbox they run in."""
