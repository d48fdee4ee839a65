"""The broker's figures as MBeans, in the JSON of Jolokia: read, list, search and version.

    /jolokia/read/kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec
    /jolokia/read/kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec/OneMinuteRate
    /jolokia/read/kafka.server:type=ReplicaManager,name=*/Value

As in Jolokia, `!/` is a slash inside a name, the order of the keys does not matter, and a name with
`*` is a pattern. There is no JVM: MBeans of `java.lang` are those that make sense for any process.
"""

from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import NamedTuple

from odradek import __version__
from odradek.broker.management.rates import Rates
from odradek.telemetry.declarations import Collected, Distribution, Kind, Metric, Value

Attributes = dict[str, float]


class ObjectName(NamedTuple):
    """A parsed name or pattern: `domain:key=value,key=value`, with `,*` for any further keys."""

    domain: str
    keys: dict[str, str]
    is_open: bool

    @classmethod
    def parse(cls, text: str) -> "ObjectName":
        """Raises ValueError if the text is not the name of an MBean."""
        domain, colon, rest = text.partition(":")
        parts = [part for part in rest.split(",") if part]
        if not colon or not parts:
            raise ValueError(f"{text!r} is not the name of an MBean, as in kafka.server:type=*,*")
        keys = dict(part.partition("=")[::2] for part in parts if part != "*")
        return cls(domain, keys, "*" in parts)

    @property
    def is_pattern(self) -> bool:
        return self.is_open or "*" in self.domain or any("*" in one for one in self.keys.values())

    def matches(self, other: "ObjectName") -> bool:
        """Returns whether another name matches this one as a pattern."""
        if not fnmatchcase(other.domain, self.domain):
            return False
        if len(other.keys) < len(self.keys) or (
            not self.is_open and len(other.keys) > len(self.keys)
        ):
            return False
        return all(
            key in other.keys and fnmatchcase(other.keys[key], value)
            for key, value in self.keys.items()
        )


def split_path(path: str) -> list[str]:
    """Returns the parts of a path after `/jolokia/`; `!/` is a slash inside a part."""
    marked = path.replace("!!", "\0").replace("!/", "\1")
    return [part.replace("\1", "/").replace("\0", "!") for part in marked.split("/") if part]


class MBeans:
    """The MBeans and their values at one moment. An object is made for each request."""

    def __init__(self, collected: Collected, rates: Rates) -> None:
        self._found: dict[str, Attributes] = {}
        self._help: dict[str, str] = {}
        for metric, rows in collected.samples.items():
            if not metric.mbean:
                continue
            for labels, value in rows:
                name = metric.object_name(labels)
                attributes = self._found.setdefault(name, {})
                attributes.update(_attributes(metric, labels, value, rates))
                self._help[name] = metric.help

    def search(self, pattern: str) -> list[str]:
        """Returns the names that match. Raises ValueError if `pattern` is not a name."""
        wanted = ObjectName.parse(pattern)
        return sorted(name for name in self._found if wanted.matches(ObjectName.parse(name)))

    def read(self, pattern: str, attributes: list[str]) -> object:
        """Returns the value of one attribute, several attributes of an MBean, or those of each
        MBean that matches a pattern. Raises KeyError if the MBean or the attribute does not exist,
        and ValueError if `pattern` is not the name of an MBean."""
        names = self.search(pattern)
        if ObjectName.parse(pattern).is_pattern:
            found = {name: self._chosen(name, attributes) for name in names}
            return {name: chosen for name, chosen in found.items() if chosen}
        if not names:
            raise KeyError(f"there is no MBean {pattern}")
        chosen = self._chosen(names[0], attributes)
        if attributes and not chosen:
            known = ", ".join(self._found[names[0]])
            raise KeyError(f"{names[0]} has no {', '.join(attributes)}; it has {known}")
        return chosen[attributes[0]] if len(attributes) == 1 else chosen

    def _chosen(self, name: str, attributes: list[str]) -> Attributes:
        found = self._found[name]
        if not attributes:
            return found
        return {attribute: found[attribute] for attribute in attributes if attribute in found}

    def list(self, domain: str | None = None) -> dict[str, object]:
        """Returns all MBeans by domain, with their attributes and descriptions."""
        listed: dict[str, dict[str, object]] = {}
        for name, attributes in sorted(self._found.items()):
            of_domain, _, keys = name.partition(":")
            if domain is None or domain == of_domain:
                listed.setdefault(of_domain, {})[keys] = {
                    "attr": {
                        attribute: {"rw": False, "type": "double", "desc": self._help[name]}
                        for attribute in attributes
                    },
                    "desc": self._help[name],
                }
        return dict(listed) if domain is None else dict(listed.get(domain, {}))


def _attributes(metric: Metric, labels: tuple[str, ...], value: Value, rates: Rates) -> Attributes:
    if isinstance(value, Distribution):
        return value.attributes()
    if metric.kind is Kind.COUNTER and metric.attribute == "Count":
        return {"Count": value, **rates.attributes(metric, labels, value)}
    return {metric.attribute: value}


def answer(path: str, beans: MBeans, now_s: int) -> dict[str, object]:
    """Returns Jolokia's answer to a path below `/jolokia`."""
    parts = split_path(path)
    operation = parts[0] if parts else "version"
    request: dict[str, object] = {"type": operation}
    try:
        value = _value(operation, parts[1:], beans, request)
    except (KeyError, ValueError) as error:
        is_missing = isinstance(error, KeyError)
        status = HTTPStatus.NOT_FOUND if is_missing else HTTPStatus.BAD_REQUEST
        kind = "javax.management.InstanceNotFoundException" if is_missing else "IllegalArgument"
        return {"request": request, "status": status.value, "error_type": kind,
                "error": f"{kind} : {error.args[0]}"}  # fmt: skip
    return {"request": request, "value": value, "timestamp": now_s, "status": 200}


def _value(operation: str, rest: list[str], beans: MBeans, request: dict[str, object]) -> object:
    match operation:
        case "read" if rest:
            request["mbean"] = rest[0]
            wanted = [name for part in rest[1:2] for name in part.split(",")]
            if wanted:
                request["attribute"] = wanted[0] if len(wanted) == 1 else wanted
            return beans.read(rest[0], wanted)
        case "search" if rest:
            request["mbean"] = rest[0]
            return beans.search(rest[0])
        case "list":
            return beans.list(rest[0] if rest else None)
        case "version":
            return {
                "agent": __version__,
                "protocol": "7.2",
                "info": {"product": "odradek", "vendor": "Odradek", "version": __version__},
            }
    raise ValueError(f"{operation} is not served here; use read, list, search or version")
