"""The messages of an encrypted sum: signed headers of JSON values, each bound to one contract, and bytes."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from onefold._base.arrays import Residues
from onefold._base.frames import unpack_frame
from onefold.exceptions import MessageError
from onefold.federated.messages import check_digest
from onefold.federated.signing import verify
from onefold.federated.sums.contract import SumContract
from onefold.federated.sums.keys import canonical
from onefold.federated.sums.sharing import MODULUS

__all__ = [
    "ANSWER",
    "HEADERS",
    "LARGEST_HEADER",
    "LIST",
    "MESSAGE",
    "OTHER",
    "TOTAL",
    "about_share",
    "check_enough",
    "check_message",
    "list_digest",
    "read_header",
    "residues",
    "signed_bytes",
]

MESSAGE, TOTAL, LIST, ANSWER = "sum message", "sum total", "sum list", "sum answer"
SIGNED = {kind: f"onefold {kind} 1\n".encode() for kind in (MESSAGE, LIST, ANSWER)}
OTHER = "the bytes are about another sum: all must use the same contract"
LARGEST_HEADER = 2**20
HEADERS = {
    MESSAGE: {"kind", "contract", "site", "sender", "parts", "seeded", "signature"},
    TOTAL: {"kind", "contract"},
    LIST: {"kind", "contract", "list", "holder", "signature"},
    ANSWER: {"kind", "contract", "list", "sites", "seeded", "sum", "holder", "signature"},
}


def signed_bytes(header: Mapping[str, Any]) -> bytes:
    """What a signature is about: everything else in a header."""
    return SIGNED[header["kind"]] + canonical({k: v for k, v in header.items() if k != "signature"})


def read_header(content: bytes, kind: str, contract: SumContract) -> dict[str, Any]:
    """Read the header of a message of a kind; refuse one about another contract."""
    header, arrays = unpack_frame(content, LARGEST_HEADER + 200 * len(contract.sites))
    if arrays or header.get("kind") != kind or set(header) != HEADERS[kind]:
        raise MessageError(f"these bytes are not a {kind}")
    if header["contract"] != contract.digest:
        raise MessageError(OTHER)
    return header


def list_digest(contract: SumContract, listed: Mapping[str, str], total: str = "") -> str:
    """Name of a list of sites, each with the one message of it that is added, and of their total, if any."""
    plain = {"contract": contract.digest, "sites": sorted(listed.items())}
    return hashlib.sha256(canonical({**plain, "total": total} if total else plain)).hexdigest()


def about_share(contract: SumContract, site: str, holder: str) -> bytes:
    """Return what the encryption of a share is bound to."""
    return canonical({"contract": contract.digest, "site": site, "holder": holder})


def residues(content: bytes) -> Residues:
    """Read a share from bytes; refuse what is no share."""
    found = np.frombuffer(content, dtype="<u8").astype(np.uint64)
    if found.size and int(found.max()) >= MODULUS:
        raise MessageError("a share is no number of the field: the sender did not follow the protocol")
    return found


# --- what sites send ---------------------------------------------------------------------------------------


def check_message(contract: SumContract, header: Mapping[str, Any]) -> str:
    """Return the site that a message is from; refuse one that is not what it says."""
    site, parts = header["site"], header["parts"]
    if site not in contract.sites:
        raise MessageError("a message is from a site that is not in the contract")
    check_digest(header["sender"])
    if not isinstance(parts, list) or len(parts) != contract.n_parts or type(header["seeded"]) is not bool:
        raise MessageError(f"the message of site {site} is damaged")
    for part in parts:
        check_digest(part)
    if contract.site_keys:
        key = contract.site_keys[contract.place(site)]
        if not verify(key.signing, header["signature"], signed_bytes(header)):
            raise MessageError(f"the message of site {site} is not signed by it")
    return str(site)


def check_enough(contract: SumContract, n_sites: int) -> None:
    """Refuse fewer sites than the noise is enough for."""
    if n_sites < contract.least_sites:
        raise MessageError(
            f"only {n_sites} of {len(contract.sites)} sites are there, and "
            f"{contract.least_sites} are needed: wait for the others, or begin a new round"
        )
