"""How far a connector has come: `/connectors/NAME/offsets` (KIP-875)."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.connect import plugins
from odradek.connect.api.surface import Surface, body_of
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem, json_response


class OffsetEntry(msgspec.Struct, forbid_unknown_fields=True):
    """`offset` null removes the offset of the partition."""

    partition: dict[str, Any] | None = None
    offset: dict[str, Any] | None = None


class ConnectorOffsets(msgspec.Struct, forbid_unknown_fields=True):
    offsets: list[OffsetEntry] | None = None


class Message(msgspec.Struct):
    message: str


_ANSWERS: Final = {
    400: "The connector is not stopped, or it could not read from such an offset.",
    404: "There is no such connector.",
    409: "No worker leads the group at the moment. Try again.",
    503: "The brokers failed.",
}
_ALL_DONE: Final = "The offsets for this connector have been {} successfully"
_DONE: Final = (
    "The Connect framework-managed offsets for this connector have been {} successfully. However,"
    " if this connector manages offsets externally, they will need to be manually {} in the system"
    " that the connector uses."
)


class OffsetEndpoints:
    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._operations = surface.operations

    def endpoints(self) -> list[Endpoint]:
        path = "/connectors/{name}/offsets"
        answers = {200: "The answer.", **_ANSWERS}
        return [
            Endpoint("GET", path, self._get, "How far it has come.", responses=answers,
                     answer=ConnectorOffsets, ignores_unknown=True),
            Endpoint("PATCH", path, self._patch, "Sets offsets; it must be stopped.",
                     changes=True, body=ConnectorOffsets, responses=answers, answer=Message,
                     ignores_unknown=True),
            Endpoint("DELETE", path, self._delete, "Removes all offsets; it must be stopped.",
                     changes=True, responses=answers, answer=Message, ignores_unknown=True),
        ]  # fmt: skip

    async def _get(self, request: Request) -> Response:
        found = await self._operations.offsets_of(str(request.path_params["name"]))
        return json_response(
            {"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]}
        )

    async def _patch(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        given = await body_of(request, ConnectorOffsets)
        if not given.offsets:
            raise Problem(
                400, "Partitions / offsets need to be provided for an alter offsets request"
            )
        entries = [(entry.partition, entry.offset) for entry in given.offsets]

        async def patch() -> Response:
            await self._operations.change_offsets(name, entries)
            return json_response({"message": self._done(name, "altered")})

        return await self._surface.change(request, patch)

    async def _delete(self, request: Request) -> Response:
        name = str(request.path_params["name"])

        async def delete() -> Response:
            await self._operations.change_offsets(name, None)
            return json_response({"message": self._done(name, "reset")})

        return await self._surface.change(request, delete)

    def _done(self, name: str, word: str) -> str:
        """Returns the words of Kafka Connect, which say whether there may be offsets elsewhere."""
        plugin = plugins.find_connector(self._operations.config(name)["connector.class"])
        if plugin.load().keeps_no_offsets:
            return _ALL_DONE.format(word)
        return _DONE.format(word, word)
