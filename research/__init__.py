"""Studies that are no part of the product: scripts, results, text."""
