"""Mathematical answers: LaTeX clean-up, exact arithmetic, algebra (math-verify), and guards against false positives."""
