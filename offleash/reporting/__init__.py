"""What is put together from the above: a comparison's JSON and terminal, the page, Markdown, LaTeX, the viewer."""
