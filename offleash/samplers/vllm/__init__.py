"""Models in vLLM: the sampler, and the separate process that holds the engine."""
