"""The figures of a comparison, one function per file."""
