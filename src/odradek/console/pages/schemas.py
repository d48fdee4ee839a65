"""Subjects and schemas of the registry. The registry decides what a user may do."""

import asyncio
import difflib
import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from starlette.responses import Response

from odradek.client.errors import ClientError
from odradek.console.asking import PageRequest, Pages
from odradek.console.records.decoding import indent_of
from odradek.console.rights import named
from odradek.schemas.errors import NotRegistered, RegistryUnreachable, SchemaError
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient, Verdict
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.wording import counted

T = TypeVar("T")

PER_PAGE: Final = 50
_MAX_COMPARED: Final = 10_000
KINDS: Final = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}
LEVELS: Final = (
    "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
    "NONE",
)  # fmt: skip


class SchemaPages(Pages):
    shown_service = ("schema registry", "schema.registry.url")

    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/schemas", self._list, "All subjects."),
            self.shows("/new-schema", self._new, "The form for a schema."),
            self.changes("/new-schema", self._register, "Checks or registers a schema."),
            self.shows("/schemas/{subject}", self._subject, "The versions of a subject."),
            self.changes("/schemas/{subject}/level", self._level, "Sets the compatibility."),
            self.changes("/schemas/{subject}/delete", self._delete, "Deletes a subject."),
        ]

    async def _list(self, asked: PageRequest) -> Response:
        if not asked.cluster.has_registry:
            return asked.page("schemas.html", "schemas", subjects=None, level="", count=0, text="",
                              page=1, last=1)  # fmt: skip
        subjects = sorted(await ask(asked, lambda registry: registry.subjects()))
        level = await ask(asked, lambda registry: registry.config()["compatibilityLevel"])
        text = asked.query.text("q")
        shown = [subject for subject in subjects if text.lower() in subject.lower()]
        last = max(1, -(-len(shown) // PER_PAGE))
        page = min(last, max(1, asked.query.number("page", "Page", at_most=10**6) or 1))
        rows = await asyncio.gather(
            *(_row(asked, one) for one in shown[(page - 1) * PER_PAGE : page * PER_PAGE])
        )
        return asked.page(
            "schemas.html", "schemas", subjects=rows, level=level, count=len(shown), text=text,
            page=page, last=last,
        )  # fmt: skip

    async def _subject(self, asked: PageRequest, problem: str = "") -> Response:
        subject = str(asked.path["subject"])
        versions = await ask(asked, lambda registry: registry.versions(subject))
        wanted = asked.query.number("version", "Version", at_least=1, at_most=2**31) or versions[-1]
        shown = await ask(asked, lambda registry: registry.version(subject, wanted))
        earlier = [version for version in versions if version < wanted]
        against = asked.query.number("against", "Version", at_least=1, at_most=2**31)
        if against is None and earlier:
            against = earlier[-1]
        difference: list[tuple[str, str]] = []
        if against is not None:
            other = await ask(asked, lambda registry: registry.version(subject, against))
            difference = await asyncio.to_thread(
                differences, pretty(other.schema.text), pretty(shown.schema.text)
            )
        config = await ask(asked, lambda registry: registry.config(subject))
        return asked.page(
            "schema.html", "schemas", 400 if problem else 200, subject=subject, versions=versions,
            version=wanted, against=against, shown=shown, text=pretty(shown.schema.text),
            kind=KINDS[shown.schema.kind], difference=difference, levels=LEVELS,
            level=config["compatibilityLevel"], problem=problem,
        )  # fmt: skip

    async def _level(self, asked: PageRequest) -> Response:
        subject, level = str(asked.path["subject"]), asked.form.text("level")
        if level not in LEVELS:
            return await self._subject(asked, f"The compatibility is one of {', '.join(LEVELS)}")
        try:
            await ask(asked, lambda registry: registry.set_config(subject, compatibility=level))
        except SchemaError as error:
            raise _refused(asked, error) from None
        return asked.go(asked.url("schemas", subject), "good", f"New versions must be {level} now.")

    async def _delete(self, asked: PageRequest) -> Response:
        subject = str(asked.path["subject"])
        if asked.form.text("confirm") != subject:
            return await self._subject(
                asked, f"Nothing was done: type {subject} into the field to confirm it"
            )
        try:
            versions = await ask(asked, lambda registry: registry.delete_subject(subject))
        except SchemaError as error:
            raise _refused(asked, error) from None
        return asked.go(
            asked.url("schemas"), "good",
            f"{subject} was deleted with {counted(len(versions), 'version')}; ids stay readable.",
        )  # fmt: skip

    # New schemas

    async def _new(self, asked: PageRequest) -> Response:
        fields = dict(asked.query.fields)
        if subject := fields.get("subject"):
            latest = await ask(asked, lambda registry: registry.latest(subject))
            fields |= {"kind": latest.schema.kind, "schema": pretty(latest.schema.text)}
        return self._form(asked, fields)

    async def _register(self, asked: PageRequest) -> Response:
        form = asked.form
        fields = dict(form.fields)
        subject, text = form.text("subject"), form.raw("schema")
        kind = cast(SchemaType, form.text("kind"))
        if not subject or kind not in KINDS or not text.strip():
            return self._form(asked, fields, problem="A subject, a format and a schema are needed.")
        try:
            verdict = await _verdict(asked, subject, kind, text)
            if form.text("action") == "check":
                problem = "" if verdict.is_compatible else "It is not compatible."
                good = "It can be registered." if verdict.is_compatible else ""
                return self._form(
                    asked, fields, problem=problem, good=good, verdicts=verdict.messages
                )
            await ask(asked, lambda registry: registry.register(subject, kind, text))
        except SchemaError as error:
            return self._form(asked, fields, problem=named(asked, str(error)))
        return asked.go(asked.url("schemas", subject), "good", f"{subject} has a new version.")

    def _form(
        self,
        asked: PageRequest,
        fields: dict[str, str],
        *,
        problem: str = "",
        good: str = "",
        verdicts: Iterable[str] = (),
    ) -> Response:
        return asked.page(
            "schema_new.html", "schemas", 400 if problem else 200, fields=fields, problem=problem,
            good=good, verdicts=list(verdicts), kinds=KINDS,
        )  # fmt: skip


async def ask(asked: PageRequest, question: Callable[[RegistryClient], T]) -> T:
    """Asks the registry as the user, in a thread. Raises a `Problem` if it cannot be asked."""
    registry = asked.cluster.formats.registry(asked.clients)
    if registry is None:
        raise Problem(404, "no schema registry is configured: set schema.registry.url")
    try:
        return await asyncio.to_thread(question, registry)
    except RegistryUnreachable as error:
        raise Problem(
            503,
            f"the schema registry at {asked.cluster.settings.schema_registry_url} does not answer"
            f" ({error}); start it, or correct schema.registry.url of the console",
        ) from None
    except NotRegistered as error:
        if asked.request.method == "POST":
            raise
        raise Problem(404, f"the schema registry does not know it: {error}") from None
    except SchemaError as error:
        if asked.request.method == "POST":
            raise
        raise _refused(asked, error) from None


def _refused(asked: PageRequest, error: SchemaError) -> Problem:
    status = getattr(error, "status", 0)
    words = named(asked, str(error))
    return Problem(status if 400 <= status < 500 else 502, f"the registry answered: {words}")


async def _verdict(asked: PageRequest, subject: str, kind: SchemaType, text: str) -> Verdict:
    try:
        return await ask(asked, lambda registry: registry.check(subject, kind, text, version=None))
    except NotRegistered:
        return Verdict(True, ())  # The first version of a subject.


async def _row(asked: PageRequest, subject: str) -> dict[str, Any]:
    try:
        latest = await ask(asked, lambda registry: registry.latest(subject))
    except (Problem, ClientError) as error:
        return {"subject": subject, "kind": "", "version": "", "id": "", "problem": str(error)}
    return {
        "subject": subject, "kind": KINDS[latest.schema.kind], "version": latest.version,
        "id": latest.id, "problem": "",
    }  # fmt: skip


def pretty(text: str) -> str:
    """Returns a schema with one field a line, if it is JSON that does not become many times as
    long by that."""
    try:
        data = json.loads(text)
        if not indent_of(text.encode(), data):
            return text
        return json.dumps(data, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def differences(before: str, after: str) -> list[tuple[str, str]]:
    """Returns the lines of both, each with what happened to it: added, removed or same. Lines are
    the same or not: to look for the most similar ones, as `difflib.ndiff` does, takes hours for
    thousands of lines."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MAX_COMPARED:
        most = counted(_MAX_COMPARED, "line", spec=",")
        return [("same", f"They have more than {most} and are not compared here.")]
    found: list[tuple[str, str]] = []
    for kind, *place in difflib.SequenceMatcher(None, old, new).get_opcodes():
        first, last, new_first, new_last = place
        if kind == "equal":
            found += [("same", line) for line in old[first:last]]
        else:
            found += [("removed", line) for line in old[first:last]]
            found += [("added", line) for line in new[new_first:new_last]]
    return found
