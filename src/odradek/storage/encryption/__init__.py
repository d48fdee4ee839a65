"""Encryption at rest: segments and key indexes as AES-256-GCM (docs/encryption.md).

- `layout`: the format of an encrypted file: its header, its frames, and where each byte is
- `encrypted_file`: a `File` whose positions are those of the plain bytes
- `encrypting_disk`: a `Disk` that recognizes encrypted files, and makes them
- `data_keys`: the keys that a broker has at hand, and for which partitions
- `key_supply`, `at_rest`: how a broker gets them, and what it does without

The rest of `odradek.storage` reads and writes plain bytes at plain positions. A broker without a
key provider imports nothing of this.
"""
