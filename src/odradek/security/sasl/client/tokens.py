"""Where a client gets its OAUTHBEARER token from: a file, a token endpoint, a function, or itself.

Each source is a function that returns a `Token`. It may read a file or ask a server, so it is
called in a worker thread. Errors are `TokenUnavailable`; none of them shows a token or a secret.
"""

import base64
import binascii
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from odradek.config.values import in_a_line

MAX_ANSWER_BYTES: Final = 1 << 20
_UNSECURED: Final = "unsecuredLogin"
_MAX_REASON: Final = 200


class TokenUnavailable(Exception):
    """No token could be had; `is_temporary` says whether the same attempt may succeed later."""

    def __init__(self, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


class Token(NamedTuple):
    """A token as it is shown to brokers, and until when it is valid, in seconds since 1970."""

    text: str
    expires_s: float | None = None
    extensions: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Token(expires_s={self.expires_s})"


def claims(text: str) -> Mapping[str, Any]:
    """Returns the claims of a JWT, unverified: the broker verifies it. Others have none."""
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        document = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def token_of(text: str, extensions: Mapping[str, str] | None = None) -> Token:
    """Returns a token with the time that its claim `exp` says."""
    expires = claims(text).get("exp")
    if not isinstance(expires, int | float) or isinstance(expires, bool):
        return Token(text, None, extensions or {})
    return Token(text, float(expires), extensions or {})


# A token that the client makes itself, without a signature


def unsecured_token(options: Mapping[str, str], now_s: float) -> Token:
    """Returns an unsigned token from the options `unsecuredLogin...` of a JAAS line.

    Brokers accept it only where their operator has asked for that by name: for tests.
    """
    names = {
        name: options.get(f"{_UNSECURED}{name}ClaimName", default)
        for name, default in (("Principal", "sub"), ("Scope", "scope"))
    }
    lifetime_s = _number(options.get(f"{_UNSECURED}LifetimeSeconds", "3600"), "LifetimeSeconds")
    made: dict[str, object] = {}
    for name, value in options.items():
        kind, separator, claim = name.removeprefix(_UNSECURED).partition("Claim_")
        if not name.startswith(_UNSECURED) or not separator or not claim:
            continue
        if kind == "String":
            made[claim] = value
        elif kind == "Number":
            made[claim] = _number(value, f"NumberClaim_{claim}")
        elif kind == "List":
            made[claim] = value[1:].split(value[0]) if value else []
    if not made.get(names["Principal"]):
        raise TokenUnavailable(
            f'the JAAS line needs {_UNSECURED}StringClaim_{names["Principal"]}="a name"'
        )
    made.setdefault("iat", now_s)
    made.setdefault("exp", now_s + lifetime_s)
    header = _encoded({"alg": "none"})
    return token_of(f"{header}.{_encoded(made)}.", _prefixed(options, f"{_UNSECURED}Extension_"))


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise TokenUnavailable(f"{_UNSECURED}{name} must be a number") from None


def _encoded(document: Mapping[str, object]) -> str:
    text = json.dumps(document, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _prefixed(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in options.items()
        if name.startswith(prefix) and name != prefix
    }


def jaas_extensions(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the SASL extensions of a JAAS line: its options `extension_...`."""
    return _prefixed(options, "extension_")


# The function of a program


def token_from_answer(answer: object) -> Token:
    """Returns the token that a function of the program answered with.

    It may be text, `(text, when it expires in seconds since 1970)`, or what confluent-kafka's
    `oauth_cb` returns: those two, a principal and extensions. An object with a method `token()`,
    as kafka-python has it, is called.
    """
    if callable(getattr(answer, "token", None)):
        answer = answer.token()  # type: ignore[attr-defined]  # checked in the line above
    if isinstance(answer, Token):
        return answer
    if isinstance(answer, str):
        return token_of(answer.strip())
    if isinstance(answer, tuple) and len(answer) >= 2 and isinstance(answer[0], str):
        extensions = answer[3] if len(answer) > 3 and isinstance(answer[3], Mapping) else {}
        if isinstance(answer[1], int | float):
            return Token(answer[0].strip(), float(answer[1]), dict(extensions))
    raise TokenUnavailable(
        "the token function must return the token as text, or (text, expiry in seconds since"
        f" 1970); it returned {type(answer).__name__}"
    )


# A token endpoint


class Endpoint(NamedTuple):
    """The token endpoint of an identity provider, for the grant of client credentials."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    url_encodes_credentials: bool = False
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    extensions: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, {self.client_id!r})"

    def fetch(self, context: ssl.SSLContext | None = None) -> Token:
        """Asks for a token (RFC 6749, section 4.4)."""
        if not self.url.lower().startswith(("http://", "https://")):
            raise TokenUnavailable(f"{in_a_line(self.url)} must begin with https:// or http://")
        fields = {"grant_type": "client_credentials"}
        if self.scope:
            fields["scope"] = self.scope
        request = urllib.request.Request(  # noqa: S310 - http or https: checked above
            self.url,
            data=urllib.parse.urlencode(fields).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Basic {self._credentials()}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        timeout_s = max(self.connect_timeout_s, self.read_timeout_s)
        # Without redirects: the credentials are for this server alone.
        opener = urllib.request.build_opener(
            _NoRedirects(), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                body = answer.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            is_temporary = error.code >= 500 or error.code == 429
            raise TokenUnavailable(self._refused(error), is_temporary=is_temporary) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise TokenUnavailable(
                f"no token from {in_a_line(self.url)}: {reason}",
                is_temporary=not isinstance(reason, ssl.SSLError),
            ) from None
        return token_of(self._token_in(body), self.extensions)

    def _credentials(self) -> str:
        pair = (self.client_id, self.client_secret)
        if self.url_encodes_credentials:
            pair = (urllib.parse.quote_plus(pair[0]), urllib.parse.quote_plus(pair[1]))
        return base64.b64encode(":".join(pair).encode()).decode()

    def _refused(self, error: urllib.error.HTTPError) -> str:
        """Returns what the endpoint said about its refusal; not its whole page."""
        said = ""
        try:
            document = json.loads(error.read(MAX_ANSWER_BYTES))
            said = f": {document.get('error_description') or document.get('error') or ''}"
        except (OSError, ValueError, AttributeError):
            pass
        return f"{in_a_line(self.url)} answered {error.code}{in_a_line(said[:_MAX_REASON])}"

    def _token_in(self, body: bytes) -> str:
        try:
            token = json.loads(body[:MAX_ANSWER_BYTES])["access_token"]
        except (ValueError, KeyError, TypeError):
            token = None
        if not isinstance(token, str) or not token:
            raise TokenUnavailable(f"{in_a_line(self.url)} answered without an access_token")
        return token.strip()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


# A file


def file_in_url(url: str) -> str | None:
    """Returns the path that a URL of the kind `file:///etc/token.jwt` names; None for others."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.unquote(parts.path) if parts.scheme == "file" else None


def token_in_file(read: Callable[[str], bytes], path: str, extensions: Mapping[str, str]) -> Token:
    """Returns the token in a file, which others replace before it expires."""
    try:
        text = read(path).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise TokenUnavailable(f"no token in {path}: {reason}", is_temporary=True) from None
    if not text:
        raise TokenUnavailable(f"no token in {path}: the file is empty", is_temporary=True)
    return token_of(text, extensions)
