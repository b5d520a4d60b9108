"""Programs judged by tests: model-written Python, run in the sandbox."""
