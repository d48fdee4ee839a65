"""A consumer's membership of a group: both protocols, assignors, committed offsets."""
