"""Reports of studies of early warning."""
