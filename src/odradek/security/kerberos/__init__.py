"""Kerberos: the one place that knows the libraries of MIT, for clients, brokers and ZooKeeper.

`library` loads them and says in one line what failed; `login_module` reads the JAAS line of Java's
`Krb5LoginModule`; `name_rules` makes a short name of a Kerberos principal.
"""
