"""Commands about the cluster as a whole and its brokers."""
