"""Step times, memory, and the conditions under which they were measured."""
