"""Words: sentences as templates, and numbers as people read them."""
