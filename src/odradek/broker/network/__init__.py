"""Sockets and connections: frames come in, replies go out."""
