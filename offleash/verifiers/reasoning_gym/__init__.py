"""Reasoning Gym's scorers, guarded against what they would accept by mistake."""
