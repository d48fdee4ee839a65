"""How requests of HTTP connectors are authorised: a fixed header, or a token of OAuth 2."""

import json
from typing import Final, Protocol
from urllib.parse import urlencode

from odradek.config.kinds import boolean, password, string
from odradek.connect.connectors.http_client import HttpClient, basic, parse_url
from odradek.connect.errors import DataError, Unavailable
from odradek.connect.settings import PluginSettings

NONE, STATIC, OAUTH2 = "none", "static", "oauth2"
_HEADER: Final = "Authorization"


class Authorization(Protocol):
    def headers(self) -> dict[str, str]: ...

    def renew(self) -> bool:
        """Called when the server refuses. Returns whether another try makes sense."""
        ...


class Fixed:
    def __init__(self, value: str | None) -> None:
        self._value = value

    def headers(self) -> dict[str, str]:
        return {} if self._value is None else {_HEADER: self._value}

    def renew(self) -> bool:
        return False


class HttpServerSettings(PluginSettings):
    """What HTTP connectors have in common: TLS, and tokens, with the names of Aiven's HTTP sink."""

    oauth2_access_token_url = string("oauth2.access.token.url", None, "Where tokens are made.")
    oauth2_request_grant_type_property = string(
        "oauth2.request.grant.type.property", "grant_type", "The name of the grant type's field."
    )
    oauth2_grant_type = string("oauth2.grant.type", "client_credentials", "The grant type.")
    oauth2_request_client_id_property = string(
        "oauth2.request.client.id.property", "client_id", "The name of the client id's field."
    )
    oauth2_client_id = string("oauth2.client.id", None, "The client id.")
    oauth2_request_client_secret_property = string(
        "oauth2.request.client.secret.property", "client_secret", "The name of the secret's field."
    )
    oauth2_client_secret = password("oauth2.client.secret", "The client's secret.")
    oauth2_client_authorization_mode = string(
        "oauth2.client.authorization.mode",
        "header",
        "Where id and secret are sent: header, or url for fields of the form.",
        choices=("header", "url"),
        folds_case=True,
    )
    oauth2_client_scope = string("oauth2.client.scope", None, "The scope.")
    oauth2_response_token_property = string(
        "oauth2.response.token.property", "access_token", "The field of the answer with the token."
    )
    trusts_all = boolean("http.ssl.trust.all.certs", False, "Trust servers whatever they show.")
    ssl_truststore_location = string(
        "http.ssl.truststore.location", None, "The certificates that are trusted."
    )
    ssl_truststore_password = password("http.ssl.truststore.password", "Its password.")


class OAuth2:
    """Asks for a token when the first request is made, and again when the server refuses it."""

    def __init__(self, settings: HttpServerSettings, timeout_s: float) -> None:
        self._settings = settings
        self._address = parse_url(settings.oauth2_access_token_url or "")
        self._client = HttpClient([self._address], timeout_s=timeout_s)
        self._token: str | None = None

    def headers(self) -> dict[str, str]:
        if self._token is None:
            self._token = self._asked()
        return {_HEADER: f"Bearer {self._token}"}

    def renew(self) -> bool:
        self._token = None
        return True

    def _asked(self) -> str:
        settings = self._settings
        form = {settings.oauth2_request_grant_type_property: settings.oauth2_grant_type}
        if settings.oauth2_client_scope:
            form["scope"] = settings.oauth2_client_scope
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        identity, secret = settings.oauth2_client_id or "", settings.oauth2_client_secret or ""
        if settings.oauth2_client_authorization_mode == "header":
            headers[_HEADER] = basic(f"{identity}:{secret}")
        else:
            form[settings.oauth2_request_client_id_property] = identity
            form[settings.oauth2_request_client_secret_property] = secret
        try:
            answer = self._client.send(
                "POST", self._address.target, urlencode(form).encode(), headers
            )
        finally:
            self._client.close()
        origin = self._address.origin
        if answer.status == 429 or answer.status >= 500:
            raise Unavailable(f"{origin} gives no token: HTTP {answer.status}")
        try:
            found = json.loads(answer.body)
            token = found[settings.oauth2_response_token_property]
        except (ValueError, KeyError, TypeError):
            # What the answer says is not shown: it may have secrets in it.
            raise DataError(
                f"{origin} gives no token: HTTP {answer.status}; check oauth2.client.id and"
                " oauth2.client.secret"
            ) from None
        return str(token)
