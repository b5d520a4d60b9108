"""Strategies: which methods of solving were lost or gained."""
