"""The lines and names of generated Python source, for `decoder` and `encoder`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager


class GeneratedSource(ABC):
    """The source of one function for one message class at one version.

    `run` holds the fields of a fixed size that were passed to `fixed` and are not yet in the
    source: `flush` writes one statement for all of them.
    """

    def __init__(self, version: int, flexible: bool, *, stepwise: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.stepwise = stepwise
        # Functions that the source calls, and the lines of the function itself.
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.depth = 0
        self.run: list[tuple[str, str]] = []
        self.namespace: dict[str, object] = {}
        self.variables = 0

    def compile(self, name: str, function: str) -> object:
        """Returns the function of the source. `name` stands in place of a file's in tracebacks."""
        code = compile("\n".join(self.functions + self.lines), name, "exec")
        exec(code, self.namespace)  # noqa: S102 - the source is made of our own declarations
        return self.namespace[function]

    @abstractmethod
    def flush(self) -> None: ...

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self.depth += 1
        yield
        self.flush()
        self.depth -= 1

    def variable(self, stem: str) -> str:
        self.variables += 1
        return f"{stem}{self.variables}"
