"""What is concluded from the rows of a run: small models, computed here and put into words elsewhere."""
