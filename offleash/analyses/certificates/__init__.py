"""Certificates: the support of a small model above a probability, without sampling noise."""
