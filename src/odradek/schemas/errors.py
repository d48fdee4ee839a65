"""What can go wrong with schemas.

SchemaError                a message for people, in one line
├── BadSchema              a schema cannot be understood, or not be a column
├── BadPayload             bytes are not what their schema says, or a value does not fit it
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
