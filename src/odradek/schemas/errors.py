"""The exceptions of `odradek.schemas`.

SchemaError                the message is one line for the user
├── BadSchema              a schema is invalid, or has no equivalent Spark or Arrow type
├── BadPayload             bytes cannot be decoded, or a value cannot be encoded, with the schema
└── RegistryFailed         the schema registry rejected a request or could not be reached
"""


class SchemaError(Exception):
    pass


class BadSchema(SchemaError):
    pass


class BadPayload(SchemaError):
    pass


class RegistryFailed(SchemaError):
    pass
