"""Where verifiers run: warm workers that are killed on time or memory, and sandboxes for what models wrote."""
