"""Samplers: local models (huggingface/, vllm/), OpenAI-compatible servers (endpoint/), scripted answers for tests."""
