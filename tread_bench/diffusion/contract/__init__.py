"""The rules for every objective, sampler and rule of guidance, as checks."""
