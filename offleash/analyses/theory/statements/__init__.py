"""The paper's statements, each with a check that could refute it."""
