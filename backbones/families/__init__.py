"""The families that this package announces: sizes, published names and closed-form costs. No torch in here."""
