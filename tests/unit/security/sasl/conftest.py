"""The KDC of the tests of Kerberos."""

from collections.abc import Iterator

import pytest

from tests.kdc import Kdc
from tests.needs import need
from tests.unit.security.sasl.kerberos_broker import SERVICE


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    kdc = need(lambda: Kdc(tmp_path_factory.mktemp("kdc")))
    with kdc.running(), kdc.used_here():
        kdc.keytab("broker", SERVICE, "kafka/other")
        for name in ("ada", "bob", "svc/host"):
            kdc.keytab(name.partition("/")[0], name)
        yield kdc
