"""Quotas: how many bytes and how much request time users and clients may use."""

from typing import Final

from starlette.responses import Response

from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, Form, PageRequest, Pages
from odradek.protocol.errors import KafkaError
from odradek.security.quotas.entities import DEFAULT, InvalidQuota, QuotaEntity
from odradek.web.endpoints import Endpoint

KEYS: Final = {
    "producer_byte_rate": "Produced bytes a second",
    "consumer_byte_rate": "Consumed bytes a second",
    "request_percentage": "Request time in percent of a thread",
    "controller_mutation_rate": "Partitions made or deleted a second",
    "connection_creation_rate": "New connections a second (of an address)",
}


class QuotaPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/quotas", self._list, "All quotas."),
            self.changes("/quotas", self._change, "Sets or removes a quota."),
        ]

    async def _list(self, asked: PageRequest, problem: str = "") -> Response:
        quotas = await asked.admin.describe_client_quotas()
        rows = [
            {"entity": entity_words(entity), "parts": entity, "key": key, "value": value}
            for entity, values in quotas.items()
            for key, value in sorted(values.items())
        ]
        rows.sort(key=lambda row: str(row["entity"]))
        return asked.page(
            "quotas.html", "quotas", 400 if problem else 200, rows=rows, keys=KEYS,
            problem=problem, fields=dict(asked.form.fields),
        )  # fmt: skip

    async def _change(self, asked: PageRequest) -> Response:
        form = asked.form
        try:
            entity = _entity(form)
            key = form.text("key")
            if key not in KEYS:
                raise BadForm("Quota: choose one")
            value = None if form.text("action") == "remove" else _value(form)
            answer = (await asked.admin.alter_client_quotas({entity: {key: value}}))[entity]
            if answer is not None:
                raise BadForm(answer.message)
        except (BadForm, InvalidQuota) as error:
            return await self._list(asked, str(error))
        except (KafkaError, ClientError) as error:
            return await self._list(asked, f"The brokers refused it: {error}")
        words = "was removed" if value is None else f"is {value:,.0f} now"
        return asked.go(asked.url("quotas"), "good", f"{key} of {entity_words(entity)} {words}.")


def _entity(form: Form) -> QuotaEntity:
    """Returns whom a form is about; `*` is the default."""

    def part(name: str) -> str | None:
        text = form.text(name)
        return None if not text else DEFAULT if text == "*" else text

    entity = QuotaEntity(part("user"), part("client"), part("ip"))
    if entity == QuotaEntity():
        raise BadForm("Say for whom: a user, a client id or an address; * is the default")
    return entity


def _value(form: Form) -> float:
    try:
        value = float(form.needed("value", "Value").replace(",", ""))
    except ValueError:
        raise BadForm("Value: this is not a number") from None
    if not 0 < value < 1e18:
        raise BadForm("Value: a number above 0")
    return value


def entity_words(entity: QuotaEntity) -> str:
    names = zip(("user", "client id", "address"), entity, strict=True)
    return ", ".join(
        f"any other {kind}" if name == DEFAULT else f"{kind} {name}"
        for kind, name in names
        if name is not None
    )
