"""Extraction: from a sample's text to its final answer."""
