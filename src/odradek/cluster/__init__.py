"""Decides and writes what the cluster agrees on: leaders, replicas, topics, settings, access rules,
registrations of brokers. The state itself is in the metadata store (`odradek.metadata`)."""
