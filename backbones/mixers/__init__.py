"""Mixers: what blocks have in place of attention, a folder each."""
