"""Decoding controls: what temperature and top-p alone do to support."""
