"""Statistics, costs, schedules and random draws."""
