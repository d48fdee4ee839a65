"""Keys of topics, and where they are kept.

- `provider`: the interface of a key provider, and its errors
- `key_file`: topic keys in a file
- `vault`: topic keys in HashiCorp Vault or OpenBao, by their transit API
- `opening`: which provider a broker, a tool or a client is told to use

A topic key never leaves its provider. It *wraps* (encrypts) data keys, which encrypt records. What
a provider returns for a data key is text that is stored beside the records and is of no use without
the topic key. So to delete a topic key is to delete all records that were encrypted under it.
"""
