"""Small worlds (problems, corpus, base model) for RLVR on a CPU, and the demo."""
