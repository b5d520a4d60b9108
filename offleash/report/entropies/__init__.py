"""Entropies for people and programs."""
