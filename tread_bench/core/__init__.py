"""The words that everything speaks: routes, families, configuration, costs, records, draws. No torch, no processes."""
