"""Planning a training: what groups of samples would see of its problems."""
