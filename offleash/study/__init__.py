"""The verbs: load, tally, compare, plan. The only place where logs, tables and statistics meet."""
