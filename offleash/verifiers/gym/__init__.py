"""What the verifier `reasoning_gym` rests on: the tasks' scorers, checks before them and credit refused after them."""
