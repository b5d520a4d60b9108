"""Models behind an OpenAI-compatible server: requests, rate limits, what each server can do, and chat."""
