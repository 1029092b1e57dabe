"""From YAML to a plan: suites are read, merged, resolved and checked; every mistake has a place. No torch."""
