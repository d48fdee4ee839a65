"""Commands of Connect: the two that start a worker, and the client of a worker."""
