"""Ways of solving for people and programs."""
