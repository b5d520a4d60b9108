"""What the verifier `math` rests on: reading LaTeX, exact decisions, limits before algebra, guards after it."""
