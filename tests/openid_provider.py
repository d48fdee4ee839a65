"""A small OpenID provider of Authlib's parts: authorization code with PKCE, refresh, revocation.

    python -m tests.openid_provider 22001

Everybody may log in, by a form that asks for a name. Access tokens are JWTs for the audience
`kafka`, as brokers check them, and live for `--lifetime` seconds. Authlib checks the client, its
secret, the redirect URL, the code and the verifier; the storage is a few dictionaries.
"""

import argparse
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

warnings.simplefilter("ignore")

from authlib.integrations.flask_oauth2 import AuthorizationServer  # noqa: E402
from authlib.oauth2.rfc6749 import grants  # noqa: E402
from authlib.oauth2.rfc6750 import BearerTokenGenerator  # noqa: E402
from authlib.oauth2.rfc7009 import RevocationEndpoint  # noqa: E402
from authlib.oauth2.rfc7636 import CodeChallenge  # noqa: E402
from authlib.oidc.core import OpenIDCode, UserInfo  # noqa: E402
from flask import Flask, jsonify, redirect, request  # noqa: E402
from joserfc import jwt as jose_jwt  # noqa: E402
from joserfc.jwk import RSAKey  # noqa: E402

CLIENT, SECRET = "the-console", "the-console-secret"
_FORM = """<!doctype html><title>Sign in</title><main><h1>Sign in</h1>
<form method="post"><label for="u">Account</label><input id="u" name="account">
<button name="do" value="in">Sign in</button><button name="do" value="no">Cancel</button></form>"""


@dataclass
class Client:
    """The console, as it is registered."""

    redirect_path: str = "/log-in/kafka/openid"
    client_id: str = CLIENT

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, url: str) -> bool:
        return url.startswith("http://127.0.0.1:") and url.endswith(self.redirect_path)

    def check_client_secret(self, secret: str) -> bool:
        return secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in {"authorization_code", "refresh_token"}


@dataclass
class Account:
    name: str

    def get_user_id(self) -> str:
        return self.name


@dataclass
class Code:
    code: str
    account: str
    redirect_uri: str
    scope: str
    nonce: str
    code_challenge: str
    code_challenge_method: str
    at_s: float = field(default_factory=time.time)

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(self.at_s)

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


@dataclass
class Refresh:
    account: str
    scope: str
    is_revoked: bool = False

    def check_client(self, client: Client) -> bool:
        return client.client_id == CLIENT

    def get_scope(self) -> str:
        return self.scope


CODES: dict[str, Code] = {}
REFRESH: dict[str, Refresh] = {}
SEEN = {"granted": 0, "renewed": 0, "revoked": 0}
KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})


class CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic"]  # noqa: RUF012 - Authlib's

    def save_authorization_code(self, code: str, given: Any) -> None:
        said = given.payload.data
        CODES[code] = Code(
            code, given.user.name, said["redirect_uri"], said["scope"], said.get("nonce", ""),
            said["code_challenge"], said["code_challenge_method"],
        )  # fmt: skip

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        return CODES.get(code)

    def delete_authorization_code(self, code: Code) -> None:
        del CODES[code.code]

    def authenticate_user(self, code: Code) -> Account:
        SEEN["granted"] += 1
        return Account(code.account)


class RefreshGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic"]  # noqa: RUF012
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, token: str) -> Refresh | None:
        found = REFRESH.get(token)
        return None if found is None or found.is_revoked else found

    def authenticate_user(self, token: Refresh) -> Account:
        SEEN["renewed"] += 1
        return Account(token.account)

    def revoke_old_credential(self, token: Refresh) -> None:
        token.is_revoked = True


class Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = ["client_secret_basic"]  # noqa: RUF012

    def query_token(self, token: str, hint: str) -> Refresh | None:
        return REFRESH.get(token)

    def revoke_token(self, token: Refresh, given: Any) -> None:
        SEEN["revoked"] += 1
        token.is_revoked = True


class IdTokens(OpenIDCode):
    def __init__(self, issuer: str, lifetime_s: int) -> None:
        super().__init__(require_nonce=True)
        self._config = {"key": KEY.as_dict(True), "alg": "RS256", "iss": issuer, "exp": lifetime_s}

    def exists_nonce(self, nonce: str, given: Any) -> bool:
        return False

    def get_jwt_config(self, grant: Any, client: Any = None) -> dict[str, Any]:
        return {**self._config, "kid": "first"}

    def generate_user_info(self, user: Account, scope: str) -> UserInfo:
        return UserInfo(sub=user.name, preferred_username=user.name)


def application(issuer: str, lifetime_s: int) -> Flask:
    app = Flask(__name__)
    app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True

    def save_token(token: dict[str, Any], given: Any) -> None:
        REFRESH[token["refresh_token"]] = Refresh(given.user.name, token["scope"])

    def access_token(client: Client, grant_type: str, user: Account, scope: str) -> str:
        now_s = int(time.time())
        claims = {
            "iss": issuer, "sub": user.name, "aud": "kafka", "scope": scope, "iat": now_s,
            "exp": now_s + lifetime_s, "jti": f"{now_s}-{len(REFRESH)}",
        }  # fmt: skip
        return jose_jwt.encode({"alg": "RS256", "kid": "first"}, claims, KEY)

    server = AuthorizationServer(app, lambda one: Client() if one == CLIENT else None, save_token)
    server.register_token_generator(
        "default",
        BearerTokenGenerator(access_token, lambda **_: _random(), lambda *_: lifetime_s),
    )
    server.register_grant(CodeGrant, [CodeChallenge(required=True), IdTokens(issuer, lifetime_s)])
    server.register_grant(RefreshGrant)
    server.register_endpoint(Revocation)

    @app.get("/.well-known/openid-configuration")
    def describe() -> Any:
        return jsonify(
            issuer=issuer, authorization_endpoint=f"{issuer}/authorize",
            token_endpoint=f"{issuer}/token", jwks_uri=f"{issuer}/keys",
            revocation_endpoint=f"{issuer}/revoke", end_session_endpoint=f"{issuer}/end",
            token_endpoint_auth_methods_supported=["client_secret_basic"],
        )  # fmt: skip

    @app.get("/keys")
    def keys() -> Any:
        return jsonify(keys=[KEY.as_dict(False)])

    @app.get("/seen")
    def seen() -> Any:
        return jsonify(SEEN)

    @app.route("/authorize", methods=["GET", "POST"])
    def authorize() -> Any:
        grant = server.get_consent_grant()
        url = grant.validate_authorization_request()
        if request.method == "GET":
            return _FORM
        if request.form["do"] == "no":
            state = request.args["state"]
            return redirect(f"{url}?error=access_denied&state={state}")
        return server.create_authorization_response(
            grant_user=Account(request.form["account"]), grant=grant
        )

    @app.post("/token")
    def token() -> Any:
        return server.create_token_response()

    @app.post("/revoke")
    def revoke() -> Any:
        return server.create_endpoint_response("revocation")

    @app.get("/end")
    def end() -> str:
        return "<!doctype html><title>Bye</title><h1>Signed out</h1>"

    return app


def _random() -> str:
    import secrets

    return secrets.token_urlsafe(32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--lifetime", type=int, default=600)
    arguments = parser.parse_args()
    issuer = f"http://127.0.0.1:{arguments.port}"
    from werkzeug.serving import make_server

    server = make_server(
        "127.0.0.1", arguments.port, application(issuer, arguments.lifetime), threaded=True
    )
    print(f"the provider is ready at {issuer}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
