"""Endpoints below `/schemas`, `/compatibility` and `/contexts`, and those about the service."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek import __version__
from odradek.registry import errors
from odradek.registry.api.bodies import (
    CompatibilityCheckResponse,
    ContextId,
    RegisteredSchema,
    RegisterSchemaRequest,
    SchemaString,
    ServerClusterId,
    ServerDeployment,
    ServerVersion,
    SubjectVersion,
    registered,
)
from odradek.registry.api.subjects import SubjectEndpoints
from odradek.registry.api.surface import (
    ACCEPTS,
    DELETED,
    FIND_TAGS,
    FORMAT,
    LIMIT,
    NORMALIZE,
    OFFSET,
    PRODUCES,
    REFERENCE_FORMAT,
    change,
    page,
    part_of,
    subject_of,
    version_number,
)
from odradek.registry.decisions import DeleteContext
from odradek.registry.names import (
    DEFAULT_CONTEXT,
    Qualified,
    context_name,
    matches,
    normal,
    qualified,
    relative,
)
from odradek.registry.records import Version
from odradek.registry.registration import LATEST
from odradek.registry.registry import Registry
from odradek.registry.rules import RULE_KINDS
from odradek.registry.state import guid
from odradek.schemas.parsed import SCHEMA_TYPES
from odradek.web.bodies import read_body
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import negotiated_response

_SUBJECT = Parameter("subject", str, "", "A subject, or a context as `:.ctx:`, to look in.")
_VERBOSE = Parameter("verbose", bool, False, "Also say why not.")
_MAX_ID = 2**31 - 1


def _get(
    path: str, handler: Any, summary: str, parameters: tuple[Parameter, ...] = (),
    answer: Any = None,
) -> Endpoint:  # fmt: skip
    return Endpoint(
        "GET", path, handler, summary, parameters, produces=PRODUCES, responses=page(),
        answer=answer, ignores_unknown=True,
    )  # fmt: skip


class SchemaEndpoints:
    def __init__(self, registry: Registry, subjects: SubjectEndpoints) -> None:
        self._registry = registry
        self._state = registry.state
        self._subjects = subjects
        self._list_of = _get(
            "/schemas", self._list, "Lists versions with their schemas.",
            (Parameter("subjectPrefix", str, "", "Only of subjects that begin so; `:*:` for those"
                       " of all contexts, which else are those of the default one."),
             DELETED, Parameter("latestOnly", bool, False, "Only the newest of each subject."),
             Parameter("ruleType", str, "", "Only with a rule of this type."),
             Parameter("aliases", bool, False,
                       "Also those of subjects for which a fitting name stands, with these names."),
             OFFSET, LIMIT),
            list[RegisteredSchema],
        )  # fmt: skip
        self._by_id_of = _get(
            "/schemas/ids/{id}", self._by_id, "Returns the schema of an id.",
            (_SUBJECT, FORMAT, Parameter("fetchMaxId", bool, False, "Also the highest id."),
             REFERENCE_FORMAT, FIND_TAGS), SchemaString,
        )  # fmt: skip
        self._schema_of = _get(
            "/schemas/ids/{id}/schema", self._schema, "Returns the schema of an id alone.",
            (_SUBJECT, FORMAT),
        )  # fmt: skip
        self._subjects_of = _get(
            "/schemas/ids/{id}/subjects", self._subjects_with, "Lists the subjects with an id.",
            (_SUBJECT, DELETED, OFFSET, LIMIT), list[str],
        )  # fmt: skip
        self._versions_of = _get(
            "/schemas/ids/{id}/versions", self._versions_with, "Lists the versions with an id.",
            (_SUBJECT, DELETED, OFFSET, LIMIT), list[SubjectVersion],
        )  # fmt: skip
        self._by_guid_of = _get(
            "/schemas/guids/{guid}", self._by_guid, "Returns a schema by its GUID.", (FORMAT,),
            SchemaString,
        )  # fmt: skip
        self._contexts_of = _get(
            "/contexts", self._contexts, "Lists the contexts.",
            (Parameter("contextPrefix", str, "", "Only those that begin so."), OFFSET, LIMIT),
            list[str],
        )  # fmt: skip
        self._compatible_of = self._comparing("/compatibility/subjects/{subject}/versions")
        self._compatible_with_of = self._comparing(
            "/compatibility/subjects/{subject}/versions/{version}"
        )

    def _comparing(self, path: str) -> Endpoint:
        return Endpoint(
            "POST", path, self._compatible, "Says whether a schema fits the earlier versions.",
            (NORMALIZE, _VERBOSE), body=RegisterSchemaRequest, media_types=ACCEPTS,
            produces=PRODUCES, responses=page(), answer=CompatibilityCheckResponse,
            ignores_unknown=True,
        )  # fmt: skip

    def endpoints(self) -> list[Endpoint]:
        return [
            self._list_of, self._by_id_of, self._schema_of, self._subjects_of, self._versions_of,
            self._by_guid_of, self._contexts_of, self._compatible_of, self._compatible_with_of,
            _get("/schemas/types", self._types, "Lists the formats of schemas.", (), list[str]),
            _get("/schemas/guids/{guid}/ids", self._ids_of_guid, "Lists the ids of a GUID.", (),
                 list[ContextId]),
            _get("/", self._root, "Says that there is a registry."),
            Endpoint("POST", "/", self._root, "Says that there is a registry.",
                     media_types=ACCEPTS, produces=PRODUCES),
            _get("/v1/metadata/id", self._cluster_id, "Returns the id of the Kafka cluster.", (),
                 ServerClusterId),
            _get("/v1/metadata/deployment", self._deployment, "Returns what is said of the"
                 " deployment: nothing.", (), ServerDeployment),
            _get("/v1/metadata/version", self._server_version,
                 "Returns the version of the service.", (), ServerVersion),
            Endpoint("DELETE", "/contexts/{context}", self._delete_context,
                     "Deletes a context that is empty.", changes=True, produces=PRODUCES,
                     responses={**change(), 204: "It was deleted."}),
        ]  # fmt: skip

    # By id

    def _with_id(self, request: Request, query: dict[str, Any]) -> list[Version]:
        """Returns the versions with the id of the path, those of the subject first."""
        text = str(request.path_params["id"])
        if not (text.isascii() and text.isdigit()) or int(text) > _MAX_ID:
            raise errors.schema_not_found(text[:50])
        number, subject = int(text), self._registry.aliased(normal(query["subject"]))
        context = qualified(query["subject"]).context
        found = self._state.places(context, number)
        name = qualified(subject).subject
        if name and context == DEFAULT_CONTEXT and not any(v.subject == subject for v in found):
            # A subject without a context may be in any of them.
            for other in self._state.contexts()[1:]:
                elsewhere = self._state.places(other, number)
                if any(version.subject == str(Qualified(other, name)) for version in elsewhere):
                    return elsewhere
        if not found:
            raise errors.schema_not_found(number)
        return sorted(found, key=lambda version: version.subject != subject)

    async def _by_id(self, request: Request) -> Response:
        query = self._by_id_of.query(request)
        version = self._with_id(request, query)[0]
        answer = await self._schema_string(version, query["format"])
        if "subject" in request.query_params:
            answer.subject, answer.version = version.subject, version.version
        if query["referenceFormat"] == "qualified":
            answer.references = self._registry.with_contexts(version)
        if query["findTags"]:
            answer.schema_tags = await self._registry.registration.tags_of(
                version, query["findTags"]
            )
        if query["fetchMaxId"]:
            answer.max_id = self._state.max_id(qualified(version.subject).context)
        return negotiated_response(request, answer)

    async def _schema_string(self, version: Version, format_: str) -> SchemaString:
        return SchemaString(
            await self._registry.formatted(version, format_),
            None if version.schema_type == "AVRO" else version.schema_type,
            version.references,
            version.metadata,
            version.rule_set,
            guid(version),
            ts=version.ts,
            deleted=version.deleted,
        )

    async def _schema(self, request: Request) -> Response:
        query = self._schema_of.query(request)
        version = self._with_id(request, query)[0]
        text = await self._registry.formatted(version, query["format"])
        return self._registry.raw_response(request, text)

    def _live_with_id(self, request: Request, query: dict[str, Any]) -> list[Version]:
        found = self._with_id(request, query)
        name = normal(query["subject"])
        return [
            version
            for version in found
            if (query["deleted"] or not version.deleted)
            and (not qualified(name).subject or version.subject == name)
        ]

    async def _subjects_with(self, request: Request) -> Response:
        query = self._subjects_of.query(request)
        names = dict.fromkeys(version.subject for version in self._live_with_id(request, query))
        return negotiated_response(request, part_of(names, query))

    async def _versions_with(self, request: Request) -> Response:
        query = self._versions_of.query(request)
        found = [
            SubjectVersion(version.subject, version.version)
            for version in self._live_with_id(request, query)
        ]
        return negotiated_response(request, part_of(found, query))

    # By GUID

    def _ids(self, request: Request) -> list[ContextId]:
        text = str(request.path_params["guid"])
        try:
            wanted = bytes.fromhex(text.replace("-", ""))
        except ValueError:
            raise errors.schema_not_found(text[:50]) from None
        return [
            ContextId(context, found)
            for context in self._state.contexts()
            if (found := self._state.id_of(context, wanted)) is not None
        ]

    async def _by_guid(self, request: Request) -> Response:
        query = self._by_guid_of.query(request)
        ids = self._ids(request)
        if not ids:
            raise errors.schema_not_found(str(request.path_params["guid"])[:50])
        version = self._state.places(ids[0].context, ids[0].id)[0]
        return negotiated_response(request, await self._schema_string(version, query["format"]))

    async def _ids_of_guid(self, request: Request) -> Response:
        return negotiated_response(request, self._ids(request))

    # Lists

    async def _list(self, request: Request) -> Response:
        query = self._list_of.query(request)
        found = [
            version
            for version in self._state.all_versions(query["subjectPrefix"])
            if query["deleted"] or not version.deleted
        ]
        aliases: dict[str, list[str]] = {}
        if query["aliases"]:
            aliases = self._aliases(query["subjectPrefix"])
            listed = {version.subject for version in found}
            found += [
                version
                for subject in aliases
                if subject not in listed
                for version in self._state.versions(subject, deleted=query["deleted"])
            ]
            found.sort(key=lambda version: (version.subject, version.version))
        if query["latestOnly"]:
            found = list({version.subject: version for version in found}.values())
        if query["ruleType"]:
            found = [version for version in found if _has_rule(version, query["ruleType"])]
        answer = [registered(one) for one in part_of(found, query)]
        for one in answer:
            one.aliases = aliases.get(one.subject or "")
        return negotiated_response(request, answer)

    def _aliases(self, prefix: str) -> dict[str, list[str]]:
        """Returns the names that begin so and stand for subjects, by subject."""
        found: dict[str, list[str]] = {}
        for alias, subject in self._state.aliases().items():
            if matches(prefix, alias):
                found.setdefault(relative(alias, subject), []).append(alias)
        return found

    async def _types(self, request: Request) -> Response:
        return negotiated_response(request, sorted(SCHEMA_TYPES))

    async def _contexts(self, request: Request) -> Response:
        query = self._contexts_of.query(request)
        prefix = query["contextPrefix"]
        found = [name for name in self._state.contexts() if name.startswith(prefix)]
        return negotiated_response(request, part_of(found, query))

    async def _delete_context(self, request: Request) -> Response:
        context = context_name(str(request.path_params["context"]))
        return await self._registry.change(request, DeleteContext(f":{context}:"), empty=True)

    # Compatibility

    async def _compatible(self, request: Request) -> Response:
        text = request.path_params.get("version")
        query = self._compatible_of.query(request)
        subject = self._registry.aliased(subject_of(request))
        candidate = self._subjects.candidate(
            subject, await read_body(request, RegisterSchemaRequest)
        )
        earlier = list(reversed(self._state.versions(subject)))
        if text is not None:
            number = version_number(str(text))
            found = self._state.version(subject, number)
            if found is None and number != LATEST:
                raise errors.version_not_found(number)
            earlier = [] if found is None else [found]
        in_scope = self._state.config_in_scope(subject)
        try:
            reasons = await self._registry.registration.reasons_against(
                candidate,
                earlier,
                normalize=query["normalize"] or in_scope.get("normalize") is True,
            )
        except errors.Refused as error:
            if error.code != errors.INVALID_SCHEMA or not query["verbose"]:
                raise
            # Who asks for all reasons learns that the schema is invalid from the same answer.
            reasons = [error.message]
        answer = CompatibilityCheckResponse(not reasons)
        if query["verbose"]:
            answer.messages = reasons
        return negotiated_response(request, answer)

    # The service

    async def _root(self, request: Request) -> Response:
        return negotiated_response(request, {})

    async def _cluster_id(self, request: Request) -> Response:
        scope = {
            "path": [],
            "clusters": {
                "kafka-cluster": self._registry.cluster_id,
                "schema-registry-cluster": self._registry.group_id,
            },
        }
        return negotiated_response(request, ServerClusterId("", scope))

    async def _deployment(self, request: Request) -> Response:
        return negotiated_response(request, ServerDeployment([]))

    async def _server_version(self, request: Request) -> Response:
        return negotiated_response(request, ServerVersion(f"odradek-{__version__}", ""))


def _has_rule(version: Version, rule_type: str) -> bool:
    return any(
        rule.get("type") == rule_type
        for kind in RULE_KINDS
        for rule in (version.rule_set or {}).get(kind) or ()
    )
