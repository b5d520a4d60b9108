"""Likelihood: how close the other model was to each solution, and how far apart the two models are."""
