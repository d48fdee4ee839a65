"""Principals, ACLs and the authorizer, and the SCRAM credentials of users."""
