"""Fingerprints: from the text of a sample to the strategy it uses."""
