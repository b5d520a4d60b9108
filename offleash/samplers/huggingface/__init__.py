"""Local models of transformers: the shared-prefix engine, the sampler, exact expansion, and scoring of given texts."""
