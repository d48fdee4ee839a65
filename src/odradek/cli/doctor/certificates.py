"""Checks for how long the certificates that brokers show are valid."""

import asyncio
import ssl
from collections.abc import Iterable

from odradek.cli.doctor.findings import Findings
from odradek.client.cluster_view import Broker
from odradek.client.settings.shared import AdminSettings
from odradek.wording import counted
from odradek.world import Randomness, SystemClock

_CONNECT_S = 5.0
_DAY_S = 86_400
# From then on there is a warning.
_SOON_DAYS = 30
_RENEW = (
    "odradek certs renew --dir DIR   # DIR is odradek-data/security after `odradek up --secure`;"
    " brokers load it while they run"
)


async def check_certificates(
    findings: Findings, settings: AdminSettings, brokers: Iterable[Broker]
) -> None:
    """Connects to each broker by TLS, as the client with these settings does; nothing without
    TLS."""
    if not settings.uses_tls:
        return
    from odradek.client.security import ClientSecurity

    security = ClientSecurity(settings, Randomness())
    for broker in sorted(brokers, key=lambda one: one.id):
        check = f"broker {broker.id}"
        try:
            options = await security.connect_options(broker.host)
            async with asyncio.timeout(_CONNECT_S):
                _, writer = await asyncio.open_connection(broker.host, broker.port, **options)
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "verify_message", None) or str(error) or "no answer"
            findings.add(check, "wrong", f"its certificate is not accepted: {reason}", _RENEW)
            continue
        shown = writer.get_extra_info("peercert") or {}
        writer.transport.abort()
        if "notAfter" in shown:
            _judge(findings, check, ssl.cert_time_to_seconds(shown["notAfter"]))


def _judge(findings: Findings, check: str, end_s: int) -> None:
    days = int((end_s - SystemClock().now_ms() / 1000) // _DAY_S)
    text = f"its certificate is valid for {counted(days, 'day')}"
    if days < _SOON_DAYS:
        findings.add(check, "warning", text, _RENEW)
    else:
        findings.add(check, "ok", text)
