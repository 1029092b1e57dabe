"""A route whose place is drawn anew for every step."""
