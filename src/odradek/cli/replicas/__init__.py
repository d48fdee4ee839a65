"""Commands about where replicas are, who leads, and whether copies are equal."""
