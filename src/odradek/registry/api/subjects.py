"""Endpoints below `/subjects`."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.registry import errors
from odradek.registry.api.bodies import (
    RegisteredSchema,
    RegisterSchemaRequest,
    TagSchemaRequest,
    registered,
)
from odradek.registry.api.surface import (
    ACCEPTS,
    DELETED,
    DELETED_ONLY,
    FIND_TAGS,
    FORMAT,
    LIMIT,
    MAX_VERSION,
    NORMALIZE,
    OFFSET,
    PERMANENT,
    PRODUCES,
    REFERENCE_FORMAT,
    change,
    page,
    part_of,
    subject_of,
    version_number,
)
from odradek.registry.decisions import DeleteSubject, DeleteVersion
from odradek.registry.names import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    Qualified,
    is_valid,
    matches,
    qualified,
)
from odradek.registry.records import Version
from odradek.registry.registration import LATEST, Candidate, with_versions
from odradek.registry.registry import Registry
from odradek.registry.rules import check_metadata, check_rule_set
from odradek.web.bodies import read_body
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import negotiated_response

_PREFIX = Parameter("subjectPrefix", str, ALL_CONTEXTS, "Only subjects that begin so.")


class SubjectEndpoints:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state
        self._list_of = Endpoint(
            "GET", "/subjects", self._list, "Lists the subjects.",
            (_PREFIX, DELETED, DELETED_ONLY, OFFSET, LIMIT),
            produces=PRODUCES, responses=page(), answer=list[str], ignores_unknown=True,
        )  # fmt: skip
        self._look_up_of = Endpoint(
            "POST", "/subjects/{subject}", self._look_up,
            "Finds the version of a subject that is this schema.", (NORMALIZE, FORMAT, DELETED),
            body=RegisterSchemaRequest, media_types=ACCEPTS, produces=PRODUCES,
            responses=page("The version."), answer=RegisteredSchema, ignores_unknown=True,
        )  # fmt: skip
        self._delete_of = Endpoint(
            "DELETE", "/subjects/{subject}", self._delete,
            "Deletes all versions of a subject; with `permanent`, for good.", (PERMANENT,),
            changes=True, produces=PRODUCES, responses=change("The versions that were deleted."),
            answer=list[int], ignores_unknown=True,
        )  # fmt: skip
        self._versions_of = Endpoint(
            "GET", "/subjects/{subject}/versions", self._versions, "Lists the versions.",
            (DELETED, DELETED_ONLY, Parameter("deletedAsNegative", bool, False,
             "Deleted versions as negative numbers."), OFFSET, LIMIT),
            produces=PRODUCES, responses=page(), answer=list[int], ignores_unknown=True,
        )  # fmt: skip
        self._register_of = Endpoint(
            "POST", "/subjects/{subject}/versions", self._register,
            "Registers a schema as the next version of a subject.",
            (NORMALIZE, FORMAT, Parameter("force", bool, False,
             "Register it although it is incompatible with earlier versions.")),
            changes=True, body=RegisterSchemaRequest, media_types=ACCEPTS, produces=PRODUCES,
            responses=change("The id, of this version or of the same schema before."),
            answer=RegisteredSchema, ignores_unknown=True,
        )  # fmt: skip
        self._version_of = Endpoint(
            "GET", "/subjects/{subject}/versions/{version}", self._version,
            "Returns a version; `latest` or -1 is the newest.",
            (FORMAT, DELETED, REFERENCE_FORMAT, FIND_TAGS),
            produces=PRODUCES, responses=page(), answer=RegisteredSchema, ignores_unknown=True,
        )  # fmt: skip
        self._schema_of = Endpoint(
            "GET", "/subjects/{subject}/versions/{version}/schema", self._schema,
            "Returns the schema of a version alone.", (FORMAT, DELETED),
            produces=PRODUCES, responses=page(), ignores_unknown=True,
        )  # fmt: skip
        self._delete_version_of = Endpoint(
            "DELETE", "/subjects/{subject}/versions/{version}", self._delete_version,
            "Deletes a version; with `permanent`, for good.", (PERMANENT,), changes=True,
            produces=PRODUCES, responses=change("The version."), answer=int, ignores_unknown=True,
        )  # fmt: skip
        self._referenced_by_of = Endpoint(
            "GET", "/subjects/{subject}/versions/{version}/referencedby", self._referenced_by,
            "Lists the ids of schemas that refer to a version.", (DELETED, OFFSET, LIMIT),
            produces=PRODUCES, responses=page(), answer=list[int], ignores_unknown=True,
        )  # fmt: skip
        self._tags_of = Endpoint(
            "POST", "/subjects/{subject}/versions/{version}/tags", self._tags,
            "Registers a version again with other tags, metadata or rules.", changes=True,
            body=TagSchemaRequest, media_types=ACCEPTS, produces=PRODUCES,
            responses=change("The new version."), answer=RegisteredSchema, ignores_unknown=True,
        )  # fmt: skip
        self._metadata_of = Endpoint(
            "GET", "/subjects/{subject}/metadata", self._metadata,
            "Returns the newest version that has these properties in its metadata.",
            (Parameter("key", doc="Names of properties."), Parameter("value", doc="Their values."),
             FORMAT, DELETED),
            produces=PRODUCES, responses=page(), answer=RegisteredSchema, ignores_unknown=True,
        )  # fmt: skip

    def endpoints(self) -> list[Endpoint]:
        return [
            self._list_of, self._look_up_of, self._delete_of, self._versions_of, self._register_of,
            self._version_of, self._schema_of, self._delete_version_of, self._referenced_by_of,
            self._tags_of, self._metadata_of,
        ]  # fmt: skip

    # Reading

    async def _list(self, request: Request) -> Response:
        query = self._list_of.query(request)
        prefix = query["subjectPrefix"]
        found = [name for name in self._state.subjects() if matches(prefix, name)]
        if query["deletedOnly"]:
            found = [name for name in found if not self._state.has_subject(name)]
        elif not query["deleted"]:
            found = [name for name in found if self._state.has_subject(name)]
        return negotiated_response(request, part_of(found, query))

    async def _versions(self, request: Request) -> Response:
        query = self._versions_of.query(request)
        subject = self._aliased(request)
        as_negative, only = query["deletedAsNegative"], query["deletedOnly"]
        deleted = query["deleted"] or only
        if not self._state.has_subject(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        versions = self._state.versions(subject, deleted=deleted or as_negative)
        numbers = [
            -version.version if version.deleted and as_negative else version.version
            for version in versions
            if version.deleted or as_negative or not only
        ]
        return negotiated_response(request, part_of(numbers, query))

    def find(self, subject: str, text: str, *, deleted: bool) -> Version:
        """Returns a version, in any context if the subject names none. Raises `Refused`."""
        number = version_number(text)
        found = self._state.version(subject, number, deleted=deleted)
        name = qualified(subject)
        if found is None and name.context == DEFAULT_CONTEXT:
            for context in self._state.contexts()[1:]:
                other = str(Qualified(context, name.subject))
                found = self._state.version(other, number, deleted=deleted)
                if found is not None:
                    return found
        if found is None:
            if not self._state.has_subject(subject, deleted=deleted):
                raise errors.subject_not_found(subject)
            raise errors.version_not_found(number)
        return found

    def _aliased(self, request: Request) -> str:
        return self._registry.aliased(subject_of(request))

    def _found(self, request: Request, query: dict[str, Any]) -> Version:
        return self.find(
            self._aliased(request), str(request.path_params["version"]), deleted=query["deleted"]
        )

    async def _version(self, request: Request) -> Response:
        query = self._version_of.query(request)
        version = self._found(request, query)
        answer = registered(version, await self._registry.formatted(version, query["format"]))
        if query["referenceFormat"] == "qualified":
            answer.references = self._registry.with_contexts(version)
        if query["findTags"]:
            answer.schema_tags = await self._registry.registration.tags_of(
                version, query["findTags"]
            )
        return negotiated_response(request, answer)

    async def _schema(self, request: Request) -> Response:
        query = self._schema_of.query(request)
        version = self._found(request, query)
        text = await self._registry.formatted(version, query["format"])
        return self._registry.raw_response(request, text)

    async def _referenced_by(self, request: Request) -> Response:
        query = self._referenced_by_of.query(request)
        version = self.find(
            self._aliased(request), str(request.path_params["version"]), deleted=True
        )
        ids = {
            referrer.id: None
            for referrer in self._state.referrers(version.subject, version.version)
            if query["deleted"] or not referrer.deleted
        }
        return negotiated_response(request, part_of(sorted(ids), query))

    async def _metadata(self, request: Request) -> Response:
        query = self._metadata_of.query(request)
        subject = self._aliased(request)
        names = request.query_params.getlist("key")
        wanted = dict(zip(names, request.query_params.getlist("value"), strict=False))
        versions = self._state.versions(subject, deleted=query["deleted"])
        for version in reversed(versions):
            properties = (version.metadata or {}).get("properties")
            if properties is not None and wanted.items() <= properties.items():
                text = await self._registry.formatted(version, query["format"])
                return negotiated_response(request, registered(version, text))
        if not versions:
            raise errors.subject_not_found(subject)
        raise errors.schema_not_found()

    async def _look_up(self, request: Request) -> Response:
        query = self._look_up_of.query(request)
        subject = self._aliased(request)
        candidate = self.candidate(subject, await read_body(request, RegisterSchemaRequest))
        version = await self._registry.registration.look_up(
            candidate, normalize=self._normalize(subject, query), deleted=query["deleted"]
        )
        if version is None:
            if not self._state.has_subject(subject, deleted=query["deleted"]):
                raise errors.subject_not_found(subject)
            raise errors.schema_not_found()
        text = await self._registry.formatted(version, query["format"])
        return negotiated_response(request, registered(version, text))

    # Changing

    def candidate(self, subject: str, body: RegisterSchemaRequest) -> Candidate:
        check_metadata(body.metadata)
        check_rule_set(body.rule_set)
        if not -1 <= (body.id or 0) <= MAX_VERSION or not -1 <= (body.version or 0) <= MAX_VERSION:
            raise errors.invalid_version(str(body.version)[:100])
        references = with_versions(self._state, subject, body.references or ())
        added, removed = body.schema_tags_to_add or (), body.schema_tags_to_remove or ()
        # A version with other tags is a new one, also where the request says no number.
        default = LATEST if added or removed else 0
        return Candidate(
            subject, body.schema, (body.schema_type or "AVRO").upper(), references, body.metadata,
            body.rule_set, -1 if body.id is None else body.id, body.version or default,
            tuple(added), tuple(removed), body.propagate_schema_tags is True,
        )  # fmt: skip

    def _normalize(self, subject: str, query: dict[str, Any]) -> bool:
        if query["normalize"]:
            return True
        return self._state.config_in_scope(subject).get("normalize") is True

    async def _register(self, request: Request) -> Response:
        query = self._register_of.query(request)
        subject = self._aliased(request)
        if not is_valid(subject):
            raise errors.invalid_subject(subject)
        body = await read_body(request, RegisterSchemaRequest)
        candidate = self.candidate(subject, body)._replace(is_forced=query["force"])
        normalize = self._normalize(subject, query)
        return await self._registry.register(request, candidate, normalize, query["format"])

    async def _tags(self, request: Request) -> Response:
        subject = self._aliased(request)
        body = await read_body(request, TagSchemaRequest)
        check_metadata(body.metadata)
        check_rule_set(body.rule_set)
        check_rule_set(body.rules_to_merge)
        if body.rule_set is not None and (body.rules_to_merge or body.rules_to_remove):
            raise errors.invalid_rule_set(
                "ruleSet should be omitted if specifying rulesToMerge or rulesToRemove"
            )
        version = self.find(subject, str(request.path_params["version"]), deleted=False)
        candidate = self._registry.tagged(version, body)
        return await self._registry.register(request, candidate, False, "")

    async def _delete(self, request: Request) -> Response:
        query = self._delete_of.query(request)
        command = DeleteSubject(self._aliased(request), query["permanent"])
        return await self._registry.change(request, command)

    async def _delete_version(self, request: Request) -> Response:
        query = self._delete_version_of.query(request)
        number = version_number(str(request.path_params["version"]))
        command = DeleteVersion(self._aliased(request), number, query["permanent"])
        return await self._registry.change(request, command)
