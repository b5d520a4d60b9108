"""Likelihoods: how probable each model finds the other's solutions, and those of others."""
