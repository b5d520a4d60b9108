"""Watching a training: rollout files as they appear, windows of steps, the live view and the page."""
