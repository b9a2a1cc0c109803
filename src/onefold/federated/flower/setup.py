"""A new federation: folders, certificates and keys, and a page that says what to do with them."""

import base64
import hashlib
import ipaddress
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from onefold._base.files import read_saved, write_whole
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.federated.flower.folders import (
    ServerFolder,
    ServerSettings,
    SiteFolder,
    SiteSettings,
    private_folder,
)
from onefold.federated.flower.registry import Registry
from onefold.federated.messages import check_name


def create_federation(
    root: Path,
    names: Sequence[str],
    settings: ServerSettings,
    own_keys: bool = False,
    approval: str | None = None,
) -> ServerFolder:
    """Make all folders, keys and certificates of a federation below ``root``, which must not hold one.

    With ``own_keys`` the sites make their keys themselves, and come in when the server has been told them.
    """
    if own_keys and settings.insecure:
        raise InvalidInputError("in a plaintext federation there are no keys")
    for name in names:
        check_name("a site's name", name)
    if len(set(names)) != len(names) or not names:
        raise InvalidInputError("name the sites, each once")
    server = ServerFolder(root / "server")
    if server.root.exists() or (root / "sites").exists():
        raise InvalidInputError(f"{root}: there is a federation already")
    private_folder(server.root)
    settings.save(server.settings_file)
    server.prepare()
    if not settings.insecure:
        make_authority(server.ca, server.ca_key, "onefold federation")
        hosts = [settings.host]
        issue_server_certificate(server.certificate, server.key, server.ca, server.ca_key, hosts)
    for name in names:
        site = SiteFolder(root / "sites" / name)
        make_site_folder(server, site, name, with_key=not own_keys, approval=approval)
        if not own_keys:
            add_site(server, name, None if settings.insecure else site.public_key)
    security = ", PLAINTEXT, for tests on this machine only" if settings.insecure else ", TLS and node keys"
    values = {"host": settings.host, "port": settings.port, "mode": settings.mode, "rule": settings.rule}
    text = _guide("guide").format(
        **values,
        plaintext=security,
        sites=", ".join(names),
        keys=_guide("own_keys" if own_keys else "keys_made"),
        approving=_guide("anyone" if approval == "anyone" or settings.insecure else "approving"),
    )
    write_whole(root / "GUIDE.md", f"{text}\n".encode(), public=True)
    return server


def _guide(part: str) -> str:
    """A part of the page that says what to do next."""
    path = Path(__file__).parent / "guide" / f"{part}.md"
    return path.read_text(encoding="utf-8").rstrip("\n")


def make_site_folder(
    server: ServerFolder, site: SiteFolder, name: str, with_key: bool, approval: str | None = None
) -> None:
    """Write what a site needs to find its server and to recognise it, and a key if it makes none itself.

    Unless told otherwise, the site answers queriers that its data owner has approved; in a plaintext
    federation, where nobody is known by a key, anyone.
    """
    check_name("a site's name", name)
    settings = server.settings
    if site.root.exists() and any(site.root.iterdir()):
        raise InvalidInputError(f"{site.root}: there is something in this folder already")
    private_folder(site.root)
    if approval is None:
        approval = "anyone" if settings.insecure else "queriers"
    made = SiteSettings(name, settings.host, settings.port, settings.insecure, approval=approval)
    made.save(site.settings_file)
    if settings.insecure:
        return
    write_whole(site.ca, server.ca.read_bytes(), public=True)
    if with_key:
        make_node_key(site.key, site.public_key)


def add_site(server: ServerFolder, name: str, public_key: Path | None) -> None:
    """Let a site in by its public key; in a plaintext federation by its name."""
    if server.settings.insecure != (public_key is None):
        raise InvalidInputError("a site is let in by its public key, except in a plaintext federation")
    Registry(server).invite(name, "" if public_key is None else public_key_text(public_key))


def add_with_folder(server: ServerFolder, name: str, public_key: Path | None, made: SiteFolder) -> SiteFolder:
    """Make the folder that a site gets, with a key pair in it unless there is a key, and let the site in."""
    with_key = public_key is None and not server.settings.insecure
    make_site_folder(server, made, name, with_key)
    try:
        add_site(server, name, made.public_key if with_key else public_key)
    except BaseException:  # nothing is left of what was made in vain
        shutil.rmtree(made.root)
        raise
    return made


# --- certificates and keys, made with the package that Flower itself uses -----------------------------------


X509, HASHES = "cryptography.x509", "cryptography.hazmat.primitives.hashes"
CURVES = "cryptography.hazmat.primitives.asymmetric.ec"
SERIALIZATION = "cryptography.hazmat.primitives.serialization"
DAYS = 365
# Clocks of other machines may be a little behind.
EARLIER = timedelta(hours=1)
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def make_authority(certificate: Path, key: Path, name: str, *, keep_key: bool = False) -> None:
    """A certificate authority for one federation: the certificate is public, the key stays at the server.

    With ``keep_key`` the key that is there gets a new certificate.
    """
    x509, ec = _crypto(X509), _crypto(CURVES)
    if keep_key:
        private = _private_key(key)
    else:
        private = ec.generate_private_key(ec.SECP384R1())
    subject = _name(f"{name} authority")
    builder = (
        _builder(subject, subject, private.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
    )
    _sign(builder, private, certificate, private, key)


def issue_server_certificate(
    certificate: Path, key: Path, authority: Path, authority_key: Path, hosts: Iterable[str]
) -> None:
    """A server certificate for ``hosts`` and this machine, signed by the authority."""
    x509, ec = _crypto(X509), _crypto(CURVES)
    issuer = x509.load_pem_x509_certificate(authority.read_bytes())
    signer = _private_key(authority_key)
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
    _sign(builder, signer, certificate, private, key)


def _private_key(path: Path) -> Any:
    """The private key in a file."""
    opened = partial(_crypto(SERIALIZATION).load_pem_private_key, password=None)
    return read_saved(path, "there is no private key", opened, secret=True)


def make_node_key(key: Path, public: Path) -> None:
    """The key pair of a site (ECDSA P-384): the private half stays at the site."""
    ec, serialization = _crypto(CURVES), _crypto(SERIALIZATION)
    private = ec.generate_private_key(ec.SECP384R1())
    # Flower reads node keys in OpenSSH's format.
    content = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    write_whole(key, content)
    line = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    write_whole(public, line + b"\n", public=True)


def public_key_text(path: Path) -> str:
    """The public key in a file, as one line; anything but a NIST curve in OpenSSH's format is refused."""
    ec, serialization = _crypto(CURVES), _crypto(SERIALIZATION)
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


def fingerprint_of(path: Path) -> str:
    """The fingerprint of the public key in a file, as ``ssh-keygen -l`` prints it."""
    content = base64.b64decode(public_key_text(path).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _builder(subject: Any, issuer: Any, public_key: Any) -> Any:
    x509, now = _crypto(X509), datetime.now(UTC)
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
    never = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    uses: dict[str, bool] = dict.fromkeys((*never, "encipher_only", "decipher_only"), False)
    uses |= dict.fromkeys(("key_cert_sign", "crl_sign"), signs_certificates)
    return _crypto(X509).KeyUsage(digital_signature=not signs_certificates, **uses)


def _name(text: str) -> Any:
    x509 = _crypto(X509)
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])


def _host(host: str) -> Any:
    x509 = _crypto(X509)
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _sign(builder: Any, signer: Any, certificate: Path, private: Any, key: Path) -> None:
    """Write a certificate that ``signer`` has signed, and the private key that belongs to it."""
    serialization = _crypto(SERIALIZATION)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    signed = builder.sign(signer, _crypto(HASHES).SHA384())
    write_whole(certificate, signed.public_bytes(pem), public=True)
    write_whole(key, private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


def _crypto(module: str) -> Any:
    return require(module, "federated")


# --- certificates end after a year --------------------------------------------------------------------------


WARN_DAYS = 30


def expiry(certificate: Path) -> datetime | None:
    """When a certificate ends; None if there is none to read."""
    try:
        found = require("cryptography.x509", "federated").load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return None
    end: datetime = found.not_valid_after_utc
    return end


def expiry_warnings(folder: ServerFolder | SiteFolder, now: datetime | None = None) -> tuple[str, ...]:
    """One line for each certificate of a folder that ends within 30 days, with what to do."""
    if folder.settings.insecure:
        return ()
    now = datetime.now(UTC) if now is None else now
    if isinstance(folder, ServerFolder):
        advice = {
            folder.certificate: ("the server's certificate", "run onefold federate renew"),
            folder.ca: ("the authority's certificate", "run onefold federate renew --authority"),
        }
    else:
        ask = "ask the server's operator for the renewed ca.crt"
        advice = {folder.ca: ("the certificate by which the server is recognised", ask)}
    lines = []
    for path, (what, todo) in advice.items():
        end = expiry(path)
        if end is not None and (end - now).days < WARN_DAYS:
            how = "has ended" if end <= now else f"ends in {(end - now).days} days"
            lines.append(f"{what} {how} ({end.date().isoformat()}): {todo}")
    return tuple(lines)


def renew(folder: ServerFolder, *, authority: bool = False) -> dict[str, Any]:
    """Write a new server certificate, valid for a year; with ``authority`` also a new one of the same key.

    The federation stays the same: sites recognise the server by the authority's old certificate until that
    ends, and queriers' signatures hold. A server certificate is of no use after its authority's has ended.
    """
    if folder.settings.insecure:
        raise InvalidInputError("a plaintext federation has no certificates")
    if not folder.ca_key.is_file():
        raise InvalidInputError(f"{folder.ca_key}: no such file; only who has the authority's key can renew")
    if authority:
        make_authority(folder.ca, folder.ca_key, "onefold federation", keep_key=True)
    end = expiry(folder.ca)
    if end is None or end <= datetime.now(UTC):
        raise InvalidInputError("the authority's certificate has ended: renew it too (--authority)")
    hosts = [folder.settings.host]
    issue_server_certificate(folder.certificate, folder.key, folder.ca, folder.ca_key, hosts)
    made = expiry(folder.certificate)
    return {
        "certificate": None if made is None else made.isoformat(),
        "authority": end.isoformat(),
        "authority_renewed": authority,
    }
