"""Answers of mathematics: LaTeX, exact arithmetic, algebra, and guards against false positives."""
