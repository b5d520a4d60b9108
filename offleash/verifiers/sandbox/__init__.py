"""Where untrusted code and slow checks run: worker processes with limits, isolated from files and network."""
