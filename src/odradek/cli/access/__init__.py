"""Commands about ACLs."""
