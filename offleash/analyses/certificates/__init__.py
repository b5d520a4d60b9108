"""Certificates: a small model's support above a probability, without sampling noise."""
