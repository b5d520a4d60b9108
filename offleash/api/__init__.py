"""What notebooks and the command line both call: one function per verb, its options declared in its signature."""
