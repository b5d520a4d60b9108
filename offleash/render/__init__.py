"""How anything is shown, knowing no subject: numbers, escaping, figures, output files, the page's shell."""
