"""Further analyses of runs, one folder each (computation, report, figures), and the planning of a budget."""
