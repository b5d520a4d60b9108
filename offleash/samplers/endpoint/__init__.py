"""Models behind an OpenAI-compatible server: HTTP, rate limits, what each server accepts, the sampler, and chat."""
