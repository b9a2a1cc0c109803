"""Certificates end after a year: when, a warning before, and new ones under the same authority's key."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onefold._base.optional import require
from onefold.exceptions import InvalidInputError
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.setup import issue_server_certificate, make_authority

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
