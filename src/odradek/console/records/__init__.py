"""Records as the console shows them: read, decoded, masked, searched."""
