"""Logs of other tools: one file per format, recognised by content, not by file name."""
