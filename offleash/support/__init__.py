"""What changed between runs: arithmetic on counts, without text, models or files."""
