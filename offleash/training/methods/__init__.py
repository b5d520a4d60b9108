"""Methods of RLVR by family, and their registry."""
