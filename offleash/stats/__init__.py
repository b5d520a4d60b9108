"""Arithmetic on counts: pass@k, support classes, intervals, chance. NumPy and SciPy only, no files."""
