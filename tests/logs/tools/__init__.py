"""Scripts that run the real tools, each inside its own environment, and writers for those that cannot run."""
