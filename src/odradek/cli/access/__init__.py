"""Commands about who may do what."""
