"""Decides and writes what the cluster agrees on: leaders, replicas, topics, settings, ACLs,
registrations of brokers. The state itself is in the metadata store (`odradek.metadata`)."""
