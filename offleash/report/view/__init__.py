"""View: the page served from run folders on this machine alone, with every sample."""
