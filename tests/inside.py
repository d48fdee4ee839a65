"""`inside`: an `async def` test that runs in a world which some function makes for it."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

Test = Callable[..., Awaitable[None]]
Decorator = Callable[[Test], Callable[..., None]]


def inside(runner: Callable[..., None], *, handed: int = 1) -> Callable[..., Decorator]:
    """Makes a decorator for tests that `runner(test, **options)` runs in a world of their own.

    It is used as `@decorator(**options)`. The first `handed` parameters of the test are what the
    runner hands over (a cluster, a way to connect); pytest fills in the others.
    """

    def with_options(**options: Any) -> Decorator:
        def decorate(test: Test) -> Callable[..., None]:
            signature = inspect.signature(test)

            @functools.wraps(test)
            def run(**given: Any) -> None:
                runner(functools.partial(test, **given), **options)

            # This is where pytest finds fixtures and parameters.
            parameters = list(signature.parameters.values())[handed:]
            run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
            del run.__wrapped__
            return run

        return decorate

    return with_options
