"""Scoring: log-probability and entropy of given texts under a model, beside the samples of a run."""
