"""The figures of a comparison, one function each."""
