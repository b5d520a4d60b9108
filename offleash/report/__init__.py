"""Results for people and programs: the terminal, and the JSON document."""
