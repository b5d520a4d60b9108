"""Small worlds with their models, and the demo."""
