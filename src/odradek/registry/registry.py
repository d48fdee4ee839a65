"""A registry: its state, its role among the instances, and the changes that it carries out.

A change comes to any instance. The primary carries it out; another instance passes it on, and
answers when its own state has the change, so that a client reads what it has written from the
instance that it wrote to. While there is no primary, or one that does not answer, the change waits
for the group to choose another one, and is tried again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.registry import errors
from odradek.registry.api.bodies import TagSchemaRequest, registered
from odradek.registry.decisions import Command, Register, Stale
from odradek.registry.election import NOBODY, Elected
from odradek.registry.judging import Judge
from odradek.registry.names import DEFAULT_CONTEXT, qualified, relative
from odradek.registry.primary import NotPrimary, Primary, Reply
from odradek.registry.records import Reference, Version
from odradek.registry.registration import LATEST, Candidate, Registration, merged_rules
from odradek.registry.schema_log import SchemaLog
from odradek.registry.state import RegistryState
from odradek.services.forwarding import FORWARDED, OFFSET, Answer, Forwarder, Unreachable
from odradek.web.media import MEDIA_TYPE
from odradek.web.problems import negotiated_response

_log = logging.getLogger("odradek.registry")

_PASSED_ON: Final = ("accept", "authorization", "content-type")
_ATTEMPTS_OF_JUDGING: Final = 50
_OWN_STATE_S: Final = 10.0
_WAIT_S: Final = 0.2

Authorize = Callable[[Request, str | None], Any]
"""Raises for a caller who may not change a subject, or with None the whole registry."""


class Registry:
    def __init__(
        self,
        state: RegistryState,
        log: SchemaLog,
        judge: Judge,
        primary: Primary,
        forwarder: Forwarder,
        *,
        group_id: str,
        timeout_s: float = 30.0,
        remove_member: Callable[[str], Any] | None = None,
    ) -> None:
        self.state = state
        self.registration = Registration(state, judge)
        self.primary = primary
        self.group_id = group_id
        self.cluster_id: str = ""
        self.authorize: Authorize | None = None
        self.forwarded = 0
        self._log = log
        self._forwarder = forwarder
        self._timeout_s = timeout_s
        self._remove_member = remove_member
        self._elected = NOBODY
        self._changed = asyncio.Event()

    # The role

    @property
    def elected(self) -> Elected:
        return self._elected

    def note_elected(self, elected: Elected) -> None:
        """Notes what the group has agreed on."""
        old, self._elected = self._elected, elected
        if (old.member_id, old.is_me) != (elected.member_id, elected.is_me):
            where = elected.identity.url if elected.identity is not None else "unknown"
            _log.info("the primary is %s", "this instance" if elected.is_me else where)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self.primary.elected(elected.is_me)

    # Changes

    async def change(
        self,
        request: Request,
        command: Command,
        *,
        shown: Callable[[Any], Any] = lambda reply: reply,
        empty: bool = False,
    ) -> Response:
        """Carries out a command and answers with its reply."""
        if self.authorize is not None:
            await self.authorize(request, command.subject)

        async def carry_out() -> Response:
            reply = await self.primary.carry_out(command)
            if empty:
                return _with_offset(Response(status_code=204), reply)
            return _with_offset(negotiated_response(request, shown(reply.value)), reply)

        return await self._here_or_there(request, carry_out)

    async def register(
        self, request: Request, candidate: Candidate, normalize: bool, format_: str
    ) -> Response:
        """Registers a schema and answers with its version."""
        if self.authorize is not None:
            await self.authorize(request, candidate.subject)

        async def carry_out() -> Response:
            reply = await self._register(candidate, normalize)
            text = await self.formatted(reply.value, format_)
            return _with_offset(negotiated_response(request, registered(reply.value, text)), reply)

        if not self._elected.is_me and FORWARDED not in request.headers:
            prepared = await self._known(candidate, normalize)
            if prepared is not None:
                text = await self.formatted(prepared, format_)
                return negotiated_response(request, registered(prepared, text))
        return await self._here_or_there(request, carry_out)

    async def _known(self, candidate: Candidate, normalize: bool) -> Version | None:
        """Returns the version if this instance knows it already. It does not refuse anything: its
        state may lag behind that of the primary."""
        try:
            prepared = await self.registration.prepare(candidate, normalize=normalize)
        except errors.Refused:
            return None
        return prepared if isinstance(prepared, Version) else None

    async def _register(self, candidate: Candidate, normalize: bool) -> Reply:
        for _ in range(_ATTEMPTS_OF_JUDGING):
            prepared = await self.registration.prepare(candidate, normalize=normalize)
            if isinstance(prepared, Version):
                return Reply(prepared, -1)
            assert isinstance(prepared, Register)
            try:
                return await self.primary.carry_out(prepared)
            except Stale:
                continue
        raise errors.timed_out("Register operation")

    async def _here_or_there(self, request: Request, carry_out: Callable[[], Any]) -> Response:
        """Carries a change out here, or lets the primary do it."""
        is_forwarded = FORWARDED in request.headers
        body = await request.body()
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    elected, changed = self._elected, self._changed
                    if elected.is_me:
                        try:
                            response: Response = await carry_out()
                        except NotPrimary:
                            pass
                        else:
                            return response
                    elif elected.identity is not None and not is_forwarded:
                        answer = await self._forward(request, elected, body, changed)
                        if answer is not None:
                            return await self._own_answer(request, answer)
                    if is_forwarded:
                        raise errors.unknown_primary()
                    await _wait(changed, _WAIT_S)
        except TimeoutError:
            raise errors.unknown_primary() from None

    async def _forward(
        self, request: Request, elected: Elected, body: bytes, changed: asyncio.Event
    ) -> Answer | None:
        """Returns the answer of the primary, or None if the change must be tried again."""
        assert elected.identity is not None
        self.forwarded += 1
        headers = {
            name: request.headers[name] for name in _PASSED_ON if name in request.headers
        } | {FORWARDED: "true"}
        target = request.scope["raw_path"].decode("latin-1")
        if request.url.query:
            target += f"?{request.url.query}"
        sending = asyncio.ensure_future(
            self._forwarder.send(elected.identity.url, request.method, target, headers, body)
        )
        waiting = asyncio.ensure_future(changed.wait())
        try:
            await asyncio.wait({sending, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                # The group has chosen another primary: this one was stopped, or is cut off.
                return None
            answer = sending.result()
        except Unreachable as error:
            await self._note_unreachable(elected, error)
            return None
        finally:
            for task in (sending, waiting):
                task.cancel()
            await asyncio.gather(sending, waiting, return_exceptions=True)
        return None if _is_not_primary(answer) else answer

    async def _note_unreachable(self, elected: Elected, error: Unreachable) -> None:
        _log.warning("the primary does not answer: %s", error)
        if error.is_dead and self._remove_member is not None and elected.member_id is not None:
            # Nothing listens at its address any more: the group need not wait for it.
            await self._remove_member(elected.member_id)

    async def _own_answer(self, request: Request, answer: Answer) -> Response:
        """Returns the answer of the primary when this instance's state has the change."""
        offset = answer.headers.get(OFFSET, "")
        if offset.isdecimal():
            try:
                async with asyncio.timeout(_OWN_STATE_S):
                    await self._log.wait_until(int(offset))
            except TimeoutError:
                _log.warning("this instance is behind the primary by more than a moment")
        return Response(answer.body, answer.status, media_type=answer.headers.get("content-type"))

    # What endpoints need

    def aliased(self, subject: str) -> str:
        """Returns the subject that another name stands for."""
        config = self.state.config(subject)
        alias = None if config is None else config.get("alias")
        return relative(subject, str(alias)) if alias else subject

    def with_contexts(self, version: Version) -> tuple[Reference, ...]:
        """Returns the references of a version, with the contexts that they are in."""
        if qualified(version.subject).context == DEFAULT_CONTEXT:
            return version.references
        return tuple(
            msgspec.structs.replace(reference, subject=relative(version.subject, reference.subject))
            for reference in version.references
        )

    async def formatted(self, version: Version, format_: str) -> str:
        """Returns the schema of a version in the format that a client asks for."""
        if not format_.strip():
            return version.schema
        return await self.registration.formatted(version, format_.strip().lower())

    def raw_response(self, request: Request, text: str) -> Response:
        """Returns a schema alone, not as a JSON text."""
        return Response(text, media_type=request.scope[MEDIA_TYPE])

    def tagged(self, version: Version, body: TagSchemaRequest) -> Candidate:
        """Returns a version with other metadata and rules, to be registered as a new one."""
        rule_set = body.rule_set
        if body.rules_to_merge is not None or body.rules_to_remove is not None:
            # The rules that are changed are those of the version before the new one.
            before = LATEST if body.new_version is None else body.new_version - 1
            previous = self.state.version(version.subject, before)
            rules = None if previous is None else previous.rule_set
            rule_set = merged_rules(rules, body.rules_to_merge)
            gone = set(body.rules_to_remove or ())
            rule_set = {
                name: [rule for rule in rules if rule.get("name") not in gone]
                if isinstance(rules, list)
                else rules
                for name, rules in (rule_set or {}).items()
            }
        return Candidate(
            version.subject, version.schema, version.schema_type, version.references,
            body.metadata if body.metadata is not None else version.metadata, rule_set,
            version=body.new_version if body.new_version else -1,
            tags_to_add=tuple(body.tags_to_add or ()),
            tags_to_remove=tuple(body.tags_to_remove or ()),
        )  # fmt: skip


def _with_offset(response: Response, reply: Reply) -> Response:
    if reply.offset >= 0:
        response.headers[OFFSET] = str(reply.offset)
    return response


def _is_not_primary(answer: Answer) -> bool:
    return answer.status == 500 and b'"error_code":50004' in answer.body


async def _wait(changed: asyncio.Event, timeout_s: float) -> None:
    waiting = asyncio.ensure_future(changed.wait())
    await asyncio.wait({waiting}, timeout=timeout_s)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
