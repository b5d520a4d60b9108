"""Frontier: pass@1 against retention, for blends, temperatures, checkpoints and a budget split between two models."""
