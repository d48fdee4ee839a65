"""Loads classes and functions that settings name as `module:Class`, in properties files too.

Serializers, partitioners, interceptors and assignors may be named so. The module is looked for on
Python's path, as Kafka looks for classes on the CLASSPATH. What cannot be loaded is refused with
one line that says why.
"""

import logging
from importlib import import_module
from typing import Any

from odradek.client.errors import SettingsError
from odradek.config.spelling import did_you_mean, nearest
from odradek.world.installing import install_line

_log = logging.getLogger("odradek.client")
# `value_serializer="avro"` and others.
_OF_THE_EXTRA = "odradek.schemas."


def is_named_class(text: str) -> bool:
    return ":" in text


def load(name: str) -> Any:
    """Returns what `module:Class` names: a class, a function or an object."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise SettingsError(f"{name!r} must be like module:Class")
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise SettingsError(
                f"there is no module {error.name}: add its directory to PYTHONPATH"
            ) from None
        advice = "install it"
        if module_name.startswith(_OF_THE_EXTRA):
            advice = install_line("schemas")
        raise SettingsError(f"module {module_name} needs {error.name}: {advice}") from None
    except Exception as error:
        raise SettingsError(
            f"module {module_name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            hint = did_you_mean(part, [known for known in dir(found) if not known.startswith("_")])
            raise SettingsError(f"module {module_name} has no {path}{hint}") from None
    return found


def load_interceptors(value: object) -> tuple[Any, ...]:
    """Returns what `interceptor.classes` names, from a list or from text with commas."""
    items: list[Any]
    if isinstance(value, str):
        items = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, list | tuple):
        items = list(value)
    else:
        raise SettingsError(
            "must be a list of interceptors, or names like module:Class with commas"
        )
    found: list[Any] = []
    for item in items:
        if isinstance(item, str) and not is_named_class(item):
            raise SettingsError(
                f"{item} is no class of Python: name interceptors {as_module_class(item)}"
            )
        found.append(load(item) if isinstance(item, str) else item)
    return tuple(found)


def as_module_class(name: str) -> str:
    """Returns how a dotted name is written here: `a.b.C` as `a.b:C`."""
    module, dot, last = name.rpartition(".")
    return f"{module}:{last}" if dot else "like module:Class"


def instance_of(given: Any, settings: object) -> Any:
    """Returns an object of a class, or what was given if that is no class.

    `configure(settings)` is called if there is such a method.
    """
    made = made_of(given)
    configure = getattr(made, "configure", None)
    if callable(configure):
        configure(settings)
    return made


def warn_if_idle(interceptor: object, client: str, first: str, second: str) -> None:
    """Warns of an interceptor that has neither of its methods: it would never be called."""
    if hasattr(interceptor, first) or hasattr(interceptor, second):
        return
    names = [name for name in dir(interceptor) if not name.startswith("_")]
    near = {first: nearest(first, names), second: nearest(second, names)}
    meant = "".join(f"; is {known} to be {name}?" for name, known in near.items() if known)
    _log.warning(
        "the interceptor %s is never called: one of a %s has %s or %s%s",
        type(interceptor).__qualname__,
        client,
        first,
        second,
        meant,
    )


def made_of(given: Any) -> Any:
    """Returns an object of a class, or what was given if that is no class."""
    if not isinstance(given, type):
        return given
    try:
        return given()
    except TypeError as error:
        raise SettingsError(
            f"{given.__qualname__} cannot be made without arguments, give an object of it: {error}"
        ) from None


def close_all(*objects: Any) -> None:
    """Calls `close()` of the objects that have it; an error of one is logged, as in Kafka.

    The others are closed nevertheless, and so is their client.
    """
    for item in objects:
        close = getattr(item, "close", None)
        if callable(close):
            try:
                close()
            except Exception:  # noqa: BLE001 - a fault of the user's must not keep others open
                _log.warning("close() of %s raised", type(item).__name__, exc_info=True)
