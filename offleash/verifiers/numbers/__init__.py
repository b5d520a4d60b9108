"""What the verifier `number` rests on: numerals, units, closed forms."""
