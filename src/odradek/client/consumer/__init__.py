"""The consumer: fetching, positions, and what is built on it."""
