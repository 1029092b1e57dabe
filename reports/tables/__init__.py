"""Tables of the page, of papers and of results.csv."""
