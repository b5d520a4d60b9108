"""Models in vLLM, in a process of its own."""
