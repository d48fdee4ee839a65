"""A directory (LDAP) that knows users, their passwords and their groups. Needs the extra `ldap`:
docs/decisions/0045-ldap.md."""
