"""Commands about groups of every type."""
