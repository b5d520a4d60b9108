"""What other tools sampled: one file per log format, recognised by content, not by file name."""
