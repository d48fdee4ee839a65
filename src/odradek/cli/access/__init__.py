"""Commands about who may do what: ACLs and certificates."""
