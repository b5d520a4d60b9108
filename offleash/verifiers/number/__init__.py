"""Answers that are a number, with or without a unit."""
