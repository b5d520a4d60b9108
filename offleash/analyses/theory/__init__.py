"""A small exact world in which the paper's theory is run and tested."""
