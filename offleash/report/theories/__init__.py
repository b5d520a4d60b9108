"""The theory for people and programs."""
