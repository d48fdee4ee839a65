"""The errors of this room.

SchemaError                the message is one line for the user
├── BadSchema              a schema is invalid, or cannot be a column
├── BadPayload             bytes do not match their schema, or a value does not
└── RegistryFailed         the registry refused or could not be reached
"""


class SchemaError(Exception):
    pass


class BadSchema(SchemaError):
    pass


class BadPayload(SchemaError):
    pass


class RegistryFailed(SchemaError):
    pass
