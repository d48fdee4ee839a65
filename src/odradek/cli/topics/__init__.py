"""Commands about topics, their settings, offsets and space on disk."""
