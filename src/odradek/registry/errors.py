"""What a registry refuses, with the codes and messages of Confluent's registry.

Clients compare the codes: the first three digits are the HTTP status.
"""

from typing import Final

INVALID_SCHEMA: Final = 42201


class Refused(Exception):
    """A request that cannot be carried out; the client is told `code` and `message`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return self.code // 100 if self.code > 999 else self.code


def subject_not_found(subject: str) -> Refused:
    return Refused(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> Refused:
    return Refused(40402, f"Version {version} not found.")


def schema_not_found(what: int | str | None = None) -> Refused:
    return Refused(40403, "Schema not found" if what is None else f"Schema {what} not found")


# Confluent's registry and Karapace have no space after the full stop of these two, and programs
# compare the words.
def subject_soft_deleted(subject: str) -> Refused:
    return Refused(
        40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> Refused:
    return Refused(
        40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> Refused:
    return Refused(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete"
        " permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> Refused:
    return Refused(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently"
        " deleted",
    )


def no_config(subject: str) -> Refused:
    return Refused(
        40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_mode(subject: str) -> Refused:
    return Refused(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, reasons: str) -> Refused:
    return Refused(
        409,
        "Schema being registered is incompatible with an earlier schema for subject"
        f' "{subject}", details: {reasons}',
    )


def invalid_schema(details: str) -> Refused:
    return Refused(INVALID_SCHEMA, f"Invalid schema: {details}")


def invalid_version(version: str) -> Refused:
    return Refused(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between"
        ' [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> Refused:
    return Refused(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full,"
        " backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> Refused:
    return Refused(
        42204,
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT",
    )


def not_permitted(message: str) -> Refused:
    return Refused(42205, message)


def reference_exists(subject: str, version: int) -> Refused:
    return Refused(
        42206,
        "One or more references exist to the schema"
        f" {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str) -> Refused:
    return Refused(42208, f"The specified subject '{subject[:200]}' is not a valid subject.")


def schema_too_large() -> Refused:
    return Refused(42209, "Register operation failed because schema is too large")


def invalid_rule_set(details: str) -> Refused:
    return Refused(42210, f"Invalid ruleset: {details}")


def context_not_empty(context: str) -> Refused:
    return Refused(42211, f"The specified context '{context}' is not empty.")


def store_failed(details: str) -> Refused:
    return Refused(50001, f"Error in the backend Kafka store: {details}")


def timed_out(what: str) -> Refused:
    return Refused(50002, f"{what} timed out")


def unknown_primary() -> Refused:
    return Refused(50004, "Leader not known: there is no primary at the moment; try again")
