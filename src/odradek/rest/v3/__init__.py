"""Version 3 of the REST API: everything is a resource with links, below `/v3/clusters`."""
