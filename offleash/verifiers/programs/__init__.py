"""What the verifier `program` rests on: assembling, running and testing what a model wrote."""
