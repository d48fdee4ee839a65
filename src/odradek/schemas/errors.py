"""The exceptions of `odradek.schemas`.

SchemaError                    the message is one line for the user
├── BadSchema                  a schema is invalid, or has no equivalent Spark or Arrow type
│   └── InvalidSchema          a text is not a schema of its format: says what is wrong and where
├── BadPayload                 bytes cannot be decoded, or a value not encoded, with the schema
├── BadSetting (ValueError)    a setting of a serializer or of the registry client cannot be so
└── RegistryFailed             the schema registry rejected a request or could not be reached
    ├── NotRegistered          it does not know the schema, the subject or the version
    └── RegistryUnreachable (OSError)
                               it did not answer: the same call may succeed later
"""


class SchemaError(Exception):
    pass


class BadSchema(SchemaError):
    pass


class InvalidSchema(BadSchema, ValueError):
    pass


class BadPayload(SchemaError):
    pass


class BadSetting(SchemaError, ValueError):
    pass


class RegistryFailed(SchemaError):
    """`status` is the HTTP status, and `error_code` the code of the registry's answer, such as
    40401; both are 0 if there was no answer."""

    def __init__(self, message: str, status: int = 0, error_code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class NotRegistered(RegistryFailed):
    pass


class RegistryUnreachable(RegistryFailed, OSError):
    """`was_not_sent` is true if no connection could be made, so that nothing can have changed."""

    was_not_sent = False

    def __init__(self, message: str, status: int = 0) -> None:
        RegistryFailed.__init__(self, message, status)
