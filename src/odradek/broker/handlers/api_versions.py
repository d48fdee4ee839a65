"""ApiVersions (v0-v4): the APIs that this broker serves, and in which versions.

A request in a version that this broker does not support is answered in version 0, with
UNSUPPORTED_VERSION and the list of APIs, so that the client can choose another version. Produce is
advertised from version 0 because some librdkafka releases look for it there (KAFKA-18659); requests
in versions below 3 are still refused.

Supported features whose minimum level is 0 are listed from version 4 on: Java clients 2.7 to 3.8
send version 3 and refuse a broker with such a feature (KAFKA-17011, KAFKA-17492). Finalized levels
are listed from version 3 on. A feature whose finalized level is 0 is disabled and is not listed.
"""

from functools import cache
from typing import Final

from odradek.broker.features import FEATURES, FINALIZED_EPOCH
from odradek.broker.handlers import Handler, served_apis
from odradek.broker.permissions import OpenToAll
from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import (
    API,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from odradek.protocol.messages.produce import ProduceRequest

_FIRST_VERSION_WITH_NAMES: Final = ApiVersionsRequest.first_version_with("client_software_name")
_TELEMETRY_KEYS: Final = (71, 72)
_FIRST_VERSION_WITH_MIN_LEVEL_0: Final = 4
_NAME_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"
)


def handle(
    services: Services, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    if context.version >= _FIRST_VERSION_WITH_NAMES:
        for name in (request.client_software_name, request.client_software_version):
            if not _is_software_name(name):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.session["software"] = (
            f"{request.client_software_name} {request.client_software_version}"
        )
    has_telemetry = services.client_telemetry is not None
    return make_response(ErrorCode.NONE, context.version, has_telemetry)


@cache
def make_response(error: ErrorCode, version: int, has_telemetry: bool) -> ApiVersionsResponse:
    """Makes the response of a version. Without a place for metrics of clients it does not offer the
    APIs by which they are pushed, as in Kafka, so that clients do not ask. It is cached: all
    clients get the same object, so it must not be changed."""
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=0 if key == ProduceRequest.api_key else api.min_version,
                max_version=api.max_version,
            )
            for key, api in served_apis().items()
            if has_telemetry or key not in _TELEMETRY_KEYS
        ],
        supported_features=[
            SupportedFeatureKey(
                name=name, min_version=feature.min_version, max_version=feature.max_version
            )
            for name, feature in FEATURES.items()
            if feature.min_version > 0 or version >= _FIRST_VERSION_WITH_MIN_LEVEL_0
        ],
        finalized_features_epoch=FINALIZED_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(
                name=name,
                max_version_level=feature.finalized_version,
                min_version_level=feature.finalized_version,
            )
            for name, feature in FEATURES.items()
            if feature.finalized_version > 0
        ],
    )


def _is_software_name(name: str) -> bool:
    return (
        bool(name)
        and _NAME_CHARACTERS.issuperset(name)
        and name[0].isalnum()
        and name[-1].isalnum()
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=OpenToAll("clients ask before they authenticate"),
    has_small_responses=True,
)
