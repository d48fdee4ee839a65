"""The story of `python_client.py` with kcat, which has no admin calls and no transactions.

    python -m tests.conformance.generations.kcat_client PROGRAM BOOTSTRAP NAME

Its topic is made when it is asked for.
"""

import subprocess
import sys

from tests.conformance.generations.python_client import PATIENCE_S, Absent, Story, within


class Kcat(Story):
    def __init__(self, program: str, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self.program = program

    def version(self) -> str:
        return self.run("-V").splitlines()[2]

    def run(self, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [self.program, "-b", self.bootstrap, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout

    def create(self) -> None:
        raise Absent

    def delete(self) -> None:
        raise Absent

    def describe(self) -> None:
        """Asking for the topic makes it; the next answer shows it."""
        for _ in within():
            if f'topic "{self.topic}" with 1 partition' in self.run("-L", "-t", self.topic):
                return

    def write(self, values: list[str], *, acks: str, codec: str) -> None:
        flags = ["-P", "-t", self.topic, "-p", "0", "-z", codec, "-X", f"acks={acks}"]
        self.run(*flags, text="".join(f"{value}\n" for value in values))

    def read(self, count: int) -> list[str]:
        flags = ["-C", "-t", self.topic, "-p", "0", "-o", "beginning", "-e", "-q"]
        return self.run(*flags, "-c", str(count)).splitlines()

    def read_in_group(self, group: str, count: int, settings: dict[str, object]) -> list[str]:
        flags = ["-X", "auto.offset.reset=earliest", "-c", str(count), "-e", "-q"]
        return self.run(*flags, "-G", group, self.topic).splitlines()


if __name__ == "__main__":
    Kcat(*sys.argv[1:]).tell()
