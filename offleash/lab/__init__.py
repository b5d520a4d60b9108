"""The embedded default: two small worlds, models for them in Hugging Face format, and the demo."""
