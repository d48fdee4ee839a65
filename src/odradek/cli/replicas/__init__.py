"""Commands about the placement of replicas, leadership, and whether replicas are equal."""
