"""Likelihoods for people and programs."""
