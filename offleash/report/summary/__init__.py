"""Summaries for elsewhere: Markdown for a pull request, rows of a table for a paper."""
