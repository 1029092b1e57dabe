"""Definitions shared by all rooms: routes, families, configuration, costs, records, draws. No torch, no processes."""
