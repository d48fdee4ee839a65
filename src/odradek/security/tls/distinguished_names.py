"""The distinguished name of a certificate as Java writes it (RFC 2253), which Kafka's principals
and mapping rules are made of: `CN=Alice,OU=exam,O=Example,C=AT`."""

from collections.abc import Mapping
from typing import Any, Final

# What RFC 2253 has a short name for. OpenSSL's long names are on the left.
_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
# Java writes all other attributes as a number and the hexadecimal bytes of their value. The second
# figure is the ASN.1 type of that value: PrintableString, IA5String or UTF8String.
_NUMBERS: Final = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "unstructuredName": ("1.2.840.113549.1.9.2", 0x16),
    "serialNumber": ("2.5.4.5", 0x13),
    "dnQualifier": ("2.5.4.46", 0x13),
    "surname": ("2.5.4.4", 0x0C),
    "title": ("2.5.4.12", 0x0C),
    "description": ("2.5.4.13", 0x0C),
    "postalCode": ("2.5.4.17", 0x0C),
    "givenName": ("2.5.4.42", 0x0C),
    "initials": ("2.5.4.43", 0x0C),
    "generationQualifier": ("2.5.4.44", 0x0C),
    "pseudonym": ("2.5.4.65", 0x0C),
    "organizationIdentifier": ("2.5.4.97", 0x0C),
}
_ESCAPES: Final = {ord(letter): "\\" + letter for letter in ',+"\\<>;'} | {0: "\\00"}


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Returns the subject of a certificate that `SSLObject.getpeercert()` has returned."""
    subject = certificate.get("subject", ())
    return ",".join("+".join(_attribute(*pair) for pair in group) for group in reversed(subject))


def _attribute(name: str, value: str) -> str:
    short = _SHORT_NAMES.get(name)
    if short is not None:
        return f"{short}={_escaped(value)}"
    number, asn1_type = _NUMBERS.get(name, (name, 0x0C))
    return f"{number}=#{_der(asn1_type, value.encode()).hex()}"


def _escaped(value: str) -> str:
    escaped = value.translate(_ESCAPES)
    if escaped.startswith((" ", "#")):
        escaped = "\\" + escaped
    if len(value) > 1 and value.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return escaped


def _der(asn1_type: int, value: bytes) -> bytes:
    size = len(value)
    if size < 128:
        length = bytes([size])
    else:
        octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
        length = bytes([0x80 | len(octets)]) + octets
    return bytes([asn1_type]) + length + value
