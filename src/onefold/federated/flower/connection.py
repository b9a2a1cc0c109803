"""A first look at a server before Flower is started: is it there, and is it the right one?"""

from __future__ import annotations

import http.client
import ssl
import time
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path

__all__ = ["Finding", "clock_ahead", "look_at"]

SECONDS = 5.0


class Finding(StrEnum):
    """What a look at an address found."""

    READY = "ready"
    ABSENT = "absent"  # nobody answers there
    UNTRUSTED = "untrusted"  # a certificate that the authority did not sign, or for another host
    OTHER = "other"  # plaintext where TLS is expected, or the other way round, or no SuperLink at all


def look_at(host: str, port: int, ca: Path | None) -> Finding:
    """Ask for the health of the SuperLink at an address; ``ca`` None asks in plaintext."""
    try:
        return Finding.READY if _health(host, port, ca).status == 200 else Finding.OTHER
    except ssl.SSLCertVerificationError:
        return Finding.UNTRUSTED
    except (ssl.SSLError, http.client.HTTPException):
        return Finding.OTHER
    except OSError:
        return Finding.ABSENT


def clock_ahead(host: str, port: int, ca: Path | None) -> float:
    """Seconds by which this machine's clock is ahead of the server's, to a second; 0 if it does not say."""
    try:
        told = parsedate_to_datetime(_health(host, port, ca).headers["Date"]).timestamp()
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return 0.0
    return time.time() - told


def _health(host: str, port: int, ca: Path | None) -> http.client.HTTPResponse:
    if ca is None:
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    else:
        context = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)
    try:
        connection.request("GET", "/health")
        return connection.getresponse()
    finally:
        connection.close()
