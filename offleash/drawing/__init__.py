"""Drawing: from problems to samples, with schedule, workers, loop, writer, resume, duplicate tests and fsck."""
