"""Operating a cluster: programs that watch it and move its load. They reach brokers only by the
protocol, so they also work with any Kafka."""
