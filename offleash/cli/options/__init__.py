"""Options that several verbs take, declared once."""
