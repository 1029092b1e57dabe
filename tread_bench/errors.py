"""What the user can mend."""

from __future__ import annotations


class UserError(ValueError):
    """Input that cannot be used: its text names the value, the rule and the way out. Exit status 2."""
