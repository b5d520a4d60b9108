"""Verifiers: is it right? From a sample's text to an answer, from an answer to a verdict."""
