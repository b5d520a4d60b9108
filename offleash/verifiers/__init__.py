"""Verifiers, one per kind of answer; extraction of answers from samples; and the sandbox for untrusted code."""
