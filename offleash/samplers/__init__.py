"""Who answers: local models (huggingface/), vLLM, OpenAI-compatible endpoints, and scripted answers for tests."""
