"""A second implementation of the statistics, from their definitions alone: nothing of the package is imported here.

`tests/reference/test_*.py` write random studies to files, run `ol.compare` on the files and compare its JSON with
what the modules here compute from the same counts.
"""
