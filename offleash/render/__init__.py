"""Rendering, whatever the subject: numbers, escaping, figures, output files and the frame of the HTML page."""
