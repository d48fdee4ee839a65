"""The error messages of commands: one line that says what is wrong and what to do next.

    CommandFailed          a tool cannot do what was asked                      exit code 1
    ├── Unreachable        no broker could be reached: `explain` adds what to check
    └── UsageError         the command line itself is wrong                     exit code 2
        └── MissingFlag    something is missing: `dispatch` adds how to see the flags

`explain` turns every other expected exception into such a line; for an unexpected one it says how
to see the traceback.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


class CommandFailed(Exception):
    exit_code = 1


class Unreachable(CommandFailed):
    pass


class UsageError(CommandFailed):
    exit_code = 2


class MissingFlag(UsageError):
    pass


def explain(failure: BaseException, arguments: "argparse.Namespace | None" = None) -> str:
    """Returns the line for a failure. `arguments` are those of the tool: they say where the address
    of brokers comes from that cannot be reached."""
    if isinstance(failure, BaseExceptionGroup):
        return explain(failure.exceptions[0], arguments)
    if isinstance(failure, TimeoutError):
        reason = str(failure).rstrip(".") or "the broker did not answer in time"
        return (
            f"{reason}; check that the broker is well,"
            " or allow more time with --command-property request.timeout.ms=60000"
        )
    if isinstance(failure, OSError | Unreachable):
        return _explain_system(failure, arguments)
    if isinstance(failure, CommandFailed) or _is_known(failure):
        return _in_the_users_words(str(failure), arguments)
    if type(failure).__module__.partition(".")[0] in {"pyspark", "py4j"}:
        return _explain_spark(failure)
    return f"unexpected {type(failure).__name__}: {failure}; set ODRADEK_DEBUG=1 to see where"


def _explain_spark(failure: BaseException) -> str:
    from odradek.spark.failures import cause, is_explained

    if is_explained(failure):
        return cause(failure)
    return f"{cause(failure).rstrip('.')}; set ODRADEK_DEBUG=1 to see all that Spark says"


def _explain_system(failure: OSError | Unreachable, arguments: "argparse.Namespace | None") -> str:
    if isinstance(failure, Unreachable):
        return _explain_unreachable(failure, str(failure), arguments)
    reason = failure.strerror or str(failure) or type(failure).__name__
    if isinstance(failure, ConnectionError) or _is_known(failure):
        said = reason if _is_known(failure) else f"cannot reach a broker: {reason}"
        return _explain_unreachable(failure, said, arguments)
    if isinstance(failure, FileNotFoundError) and isinstance(failure.filename, str):
        from odradek.tools.files import no_such_file

        return no_such_file(failure.filename)
    from odradek.tools.files import cannot_use, cannot_write_more

    if isinstance(failure.filename, str):
        return cannot_use(failure.filename, failure, reason)
    return cannot_write_more(failure, reason)


def _in_the_users_words(text: str, arguments: "argparse.Namespace | None") -> str:
    """Returns a text about an invalid `bootstrap.servers` with the name that the user typed, one
    about a registry with the setting that names it, one about a permission with the tool that
    explains it, and one about a refused password with the file that has it."""
    if _DENIED in text:
        return f"{text.rstrip('.')}; an administrator sees why with `odradek acls --explain`"
    if any(f"refused the log-in by {mechanism}" in text for mechanism in _WITH_PASSWORDS):
        file = getattr(arguments, "command_config", None)
        where = f" in {file}" if file else ""
        return f"{text.rstrip('.')}; check the user name and the password{where}"
    if text.endswith(_IN_CLIENTS) and _REGISTRY in text:
        return _about_registry(text)
    if not text.startswith("bootstrap.servers=") or not hasattr(arguments, "bootstrap_server"):
        return text
    from odradek.tools.client_properties import bootstrap_servers

    named_by = bootstrap_servers(arguments).named_by if arguments is not None else None
    return text if named_by is None else f"{named_by} {text.removeprefix('bootstrap.servers=')}"


def _about_registry(said: str) -> str:
    """Returns the line for a registry that a serializer or a deserializer cannot ask."""
    said = said.removesuffix(_IN_CLIENTS)
    return f"{said}; say where it is with schema.registry.url or $ODRADEK_SCHEMA_REGISTRY"


def _explain_unreachable(
    failure: BaseException, said: str, arguments: "argparse.Namespace | None"
) -> str:
    from odradek.tools.broker_addresses import what_to_check

    if "security.protocol" in said and not said.endswith("?"):
        # Somebody answers there, and the line says what to set. A question does not say it.
        return said
    if said.startswith(_NO_LOG_IN):
        # Not the broker is away, but who gives tickets or tokens.
        return said
    if _REGISTRY in said:
        return _about_registry(said)
    advice = what_to_check(failure, arguments)
    if said.endswith("?"):
        return f"{said} {advice[0].upper()}{advice[1:]}"
    return f"{said.rstrip('.')}; {advice}"


_IN_CLIENTS = "; poll() tries again"  # what our consumer says to programs
_DENIED = "No permission for this"
_WITH_PASSWORDS = ("PLAIN", "SCRAM-")
_REGISTRY = "the registry at "
_NO_LOG_IN = ("no log-in by Kerberos", "no OAUTHBEARER token")
# Exceptions whose message is written for users, by the module that declares them.
_KNOWN = (
    ("odradek.protocol.errors", "KafkaError"),
    ("odradek.protocol.errors", "MalformedMessage"),
    ("odradek.client.errors", "ClientError"),
    ("odradek.config.setting", "InvalidSetting"),
    ("odradek.web.serving", "CannotServe"),
    ("odradek.spark.option_names", "BadOption"),
    ("odradek.spark.prerequisites", "SparkMissing"),
)


def _is_known(failure: BaseException) -> bool:
    """Returns whether the message is written for users. No module is imported for this: an
    exception of a module that was not imported cannot have been raised."""
    import sys

    return any(
        module in sys.modules and isinstance(failure, getattr(sys.modules[module], name))
        for module, name in _KNOWN
    )
