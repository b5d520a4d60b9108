"""From the text of a sample to the answer it gives: the ladder and its steps."""
