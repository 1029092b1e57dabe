"""The characters of the fonts that come with matplotlib."""
