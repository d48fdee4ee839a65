"""The edges of every parameter of every HTTP service. `python -m tests.fuzz.openapi` is the long
form, with random requests."""

from pathlib import Path

import pytest

from tests.fuzz.openapi import SERVICES, play, started


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_keeps_what_its_document_says(service: str, tmp_path: Path) -> None:
    with started(service, tmp_path / service) as url:
        kept, said = play(url, seconds=0, seed=1, directory=tmp_path)
    assert kept, said
