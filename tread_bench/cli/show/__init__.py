"""What commands print: tables, lines and JSON."""
