"""A real broker for tests, in pytest and outside it."""
