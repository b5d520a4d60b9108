"""Watching a training run: rollout files as they appear, windows of steps, the live view and the page."""
