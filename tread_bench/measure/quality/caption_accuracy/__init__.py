"""Whether drawn characters are those of their captions."""
