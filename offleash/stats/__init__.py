"""Statistics on arrays: pass@k, support classes, intervals, significance. NumPy and SciPy only, no files."""
