"""A user's own verifier: a function of verl's, TRL's or our parameters, called in a worker that can be killed."""
