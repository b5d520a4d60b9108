"""Two runs in; classes, curves, evidence, guessing and flips out, with their words and JSON."""
