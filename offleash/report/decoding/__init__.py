"""Decoding controls for people and programs."""
