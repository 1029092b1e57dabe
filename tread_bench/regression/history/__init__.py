"""Many runs in the order of their commits, and where their figures changed permanently."""
