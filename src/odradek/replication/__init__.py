"""The replicas on this broker: what it leads, what it follows, what it may show."""
