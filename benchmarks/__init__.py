"""Side-by-side measurements against peers; each script ends in lines `ratio <what>: <number>`."""
