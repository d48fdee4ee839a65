"""A bucket of S3, or of a store that speaks its protocol."""

from typing import Any

from odradek.connect.connectors.object_sink.stores import Store
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.world.installing import install_line

try:
    import obstore
    from obstore.store import S3Store as Client
except ImportError as error:
    raise InvalidConfig(f"the client for S3 is not installed: {install_line('s3')}") from error


class S3Store(Store):
    """`obstore` tries again by itself when the other side is busy."""

    def __init__(
        self,
        bucket: str,
        *,
        region: str,
        endpoint: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        token: str | None = None,
    ) -> None:
        self._bucket = bucket
        options: dict[str, Any] = {
            "endpoint": endpoint,
            "access_key_id": access_key,
            "secret_access_key": secret_key,
            "session_token": token,
        }
        self._client = Client(
            bucket,
            region=region,
            **{name: value for name, value in options.items() if value},
            client_options={"allow_http": True, "timeout": "60s", "connect_timeout": "10s"},
            retry_config={"max_retries": 3},
        )

    def put(self, name: str, data: bytes) -> None:
        try:
            obstore.put(self._client, name, data)
        except Exception as error:
            raise self._translated(error) from error

    def try_out(self) -> None:
        try:
            next(iter(obstore.list(self._client, chunk_size=1)), None)
        except Exception as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> DataError | Unavailable:
        """Errors that say that something is wrong for good are of classes of their own."""
        text = " ".join(str(error).split())
        shown = f"bucket {self._bucket}: {text[:300]}"
        wrong = ("NotFound", "PermissionDenied", "Unauthenticated", "InvalidPath")
        is_wrong = isinstance(error, FileNotFoundError) or type(error).__name__.startswith(wrong)
        return DataError(shown) if is_wrong else Unavailable(shown)
