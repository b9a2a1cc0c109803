"""Certificates and keys of a federation, made with the package that Flower itself uses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onefold._base.files import atomic_write
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.federated.flower.folders import write_private

__all__ = ["issue_server_certificate", "make_authority", "make_node_key", "public_key_text"]

DAYS = 365
# Clocks of other machines may be a little behind.
EARLIER = timedelta(hours=1)
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def make_authority(certificate: Path, key: Path, name: str) -> None:
    """A certificate authority for one federation: the certificate is public, the key stays at the server."""
    x509, ec = _x509(), _curves()
    private = ec.generate_private_key(ec.SECP384R1())
    subject = _name(f"{name} authority")
    builder = (
        _builder(subject, subject, private.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
    )
    _write_certificate(certificate, builder.sign(private, _hashes().SHA384()))
    write_private(key, _private_pem(private))


def issue_server_certificate(
    certificate: Path, key: Path, authority: Path, authority_key: Path, hosts: Iterable[str]
) -> None:
    """A server certificate for ``hosts`` and this machine, signed by the authority."""
    x509, ec, loading = _x509(), _curves(), _serialization()
    issuer = x509.load_pem_x509_certificate(authority.read_bytes())
    signer = loading.load_pem_private_key(authority_key.read_bytes(), password=None)
    private = ec.generate_private_key(ec.SECP384R1())
    names = [_host(host) for host in dict.fromkeys([*hosts, *THIS_MACHINE])]
    builder = (
        _builder(_name("onefold server"), issuer.subject, private.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    _write_certificate(certificate, builder.sign(signer, _hashes().SHA384()))
    write_private(key, _private_pem(private))


def make_node_key(key: Path, public: Path) -> None:
    """The key pair of a site (ECDSA P-384): the private half stays at the site."""
    ec, serialization = _curves(), _serialization()
    private = ec.generate_private_key(ec.SECP384R1())
    # Flower reads node keys in OpenSSH's format.
    content = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    write_private(key, content)
    line = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    with atomic_write(public) as file:
        file.write(line + b"\n")


def public_key_text(path: Path) -> str:
    """The public key in a file, as one line; anything but a NIST curve in OpenSSH's format is refused."""
    ec, serialization = _curves(), _serialization()
    unsupported = require("cryptography.exceptions", "federated").UnsupportedAlgorithm
    try:
        known = serialization.load_ssh_public_key(path.read_bytes())
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: no such file") from None
    except (OSError, ValueError, unsupported):
        raise InvalidInputError(f"{path}: no public key in OpenSSH's format") from None
    if not isinstance(known, ec.EllipticCurvePublicKey):
        raise InvalidInputError(f"{path}: a site's key must be ECDSA on a NIST curve, P-384 for instance")
    plain: bytes = known.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return plain.decode("ascii")


def _builder(subject: Any, issuer: Any, public_key: Any) -> Any:
    x509, now = _x509(), datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _usage(signs_certificates: bool) -> Any:
    return _x509().KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> Any:
    x509 = _x509()
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])


def _host(host: str) -> Any:
    x509 = _x509()
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _write_certificate(path: Path, certificate: Any) -> None:
    with atomic_write(path) as file:
        file.write(certificate.public_bytes(_serialization().Encoding.PEM))


def _private_pem(private: Any) -> bytes:
    serialization = _serialization()
    content: bytes = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return content


def _x509() -> Any:
    return require("cryptography.x509", "federated")


def _curves() -> Any:
    return require("cryptography.hazmat.primitives.asymmetric.ec", "federated")


def _hashes() -> Any:
    return require("cryptography.hazmat.primitives.hashes", "federated")


def _serialization() -> Any:
    return require("cryptography.hazmat.primitives.serialization", "federated")
