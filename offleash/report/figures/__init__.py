"""Figures: one file a figure, in one grammar for the page, for papers and for notebooks."""
