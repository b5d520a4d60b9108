"""The page: one self-contained file that says what was found and leads down to the single sample."""
