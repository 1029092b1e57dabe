"""Rules of guidance: which two branches are combined. They need no torch."""
