"""Planning a training run: what groups of samples would see of its problems."""
