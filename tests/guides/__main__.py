"""`python -m tests.guides PAGE...`: runs pages and shows what their commands print now.

For those who write pages: what is printed can be copied into the page. Ends with 1 if a page shows
something else.
"""

import sys
import tempfile
from pathlib import Path

from tests.guides.page import Page, PageDiffers
from tests.guides.transcript import Step


def _show(line: int, step: Step, printed: str, problem: str | None) -> None:
    if problem is not None:
        print(f"### line {line}: {problem}; the page shows:\n{step.shown}### and this is printed:")
    print(f"$ {step.command}\n{printed}", end="", flush=True)


def main() -> int:
    failed = False
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="odradek-guide-") as directory:
            try:
                Page(Path(name), Path(directory), _show).run()
            except PageDiffers:
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
