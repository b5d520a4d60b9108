"""Samplers: who answers."""
