"""SCRAM credentials: derived as the RFC says, kept as Kafka keeps them."""

import base64
import hashlib
import hmac

import pytest

from odradek.security.scram import MalformedCredential, ScramCredential, ScramMechanism


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_what_is_kept_proves_the_password(mechanism: ScramMechanism) -> None:
    salted = hashlib.pbkdf2_hmac(mechanism.digest, b"pencil", b"salt", 4096)
    kept = ScramCredential.derive(mechanism, 4096, b"salt", salted)
    # A client proves that it knows the password: its key, hidden under a signature.
    message = b"n=user,r=nonce"
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    signature = hmac.digest(kept.stored_key, message, mechanism.digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    shown = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.new(mechanism.digest, shown).digest() == kept.stored_key
    assert salted not in kept


def test_the_example_of_the_rfc() -> None:
    """RFC 7677, section 3: the server's last word, from the keys that we keep."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    kept = ScramCredential.derive(ScramMechanism.SHA_256, 4096, salt, salted)
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(kept.server_key, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_credential_survives_the_store() -> None:
    kept = ScramCredential.derive(ScramMechanism.SHA_512, 8192, b"\0salt=,", b"salted")
    assert ScramCredential.decode(kept.encode()) == kept
    assert kept.encode().startswith("salt=AHNhbHQ9LA==,stored_key=")
    assert kept.encode().endswith(",iterations=8192")


@pytest.mark.parametrize(
    "text", ["", "salt=", "salt=a,stored_key=!,server_key=,iterations=1", "iterations=x"]
)
def test_nonsense_is_no_credential(text: str) -> None:
    with pytest.raises(MalformedCredential):
        ScramCredential.decode(text)


def test_logs_show_no_secret() -> None:
    kept = ScramCredential(4096, b"pepper", b"stored", b"server")
    assert "4096" in repr(kept)
    assert not any(secret in repr(kept) for secret in ("pepper", "stored", "server"))


def test_mechanisms_have_kafkas_names() -> None:
    assert [one.kafka_name for one in ScramMechanism] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
