"""Commands about access rules (ACLs)."""
