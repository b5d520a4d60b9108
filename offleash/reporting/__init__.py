"""Reports of a comparison: JSON, terminal, the HTML page, Markdown, LaTeX, notebooks, and the sample viewer."""
