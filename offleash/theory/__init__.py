"""A small exact world: problems, answers and policies whose every probability is known (NumPy only)."""
