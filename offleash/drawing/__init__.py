"""From problems to samples: the schedule, sampler workers, the loop, the writer, resuming, and fsck."""
