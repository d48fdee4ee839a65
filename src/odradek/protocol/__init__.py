"""The Kafka protocol without any I/O: messages, codec, framing, record batches, errors.

Bytes come in and values go out, and the other way round; nothing here awaits, opens or
asks for the time. Malformed bytes always end in `MalformedMessage`, and what a decoder
allocates is bounded by the bytes it was given.

Import from the modules themselves: this package imports nothing, so that a program pays
only for the messages it uses.
"""
