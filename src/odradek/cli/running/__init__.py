"""Commands that run a broker, a cluster or a ZooKeeper server."""
