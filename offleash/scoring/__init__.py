"""Scoring: log-probability and entropy of given texts under a model, stored beside the samples."""
