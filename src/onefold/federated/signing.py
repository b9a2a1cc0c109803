"""Ed25519 in one place: queriers sign what they ask, holders and sites of encrypted sums what they send.

Keys are 32 bytes, public keys and signatures hexadecimal digits. Needs ``cryptography``, of the extra
``federated``.
"""

import json
from collections.abc import Mapping
from typing import Any

from onefold._base.optional import require

__all__ = ["ED25519", "SERIALIZATION", "canonical", "public_of", "sign", "verify"]

ED25519 = "cryptography.hazmat.primitives.asymmetric.ed25519"
SERIALIZATION = "cryptography.hazmat.primitives.serialization"


def canonical(plain: Mapping[str, Any]) -> bytes:
    """Return JSON values as bytes, always the same for the same values."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def public_of(secret: bytes) -> str:
    """Return the public key of a secret one, 64 hexadecimal digits."""
    return str(_private(secret).public_key().public_bytes_raw().hex())


def sign(secret: bytes, content: bytes) -> str:
    """Sign bytes; the same bytes always get the same signature, 128 hexadecimal digits."""
    return str(_private(secret).sign(content).hex())


def verify(public: str, signature: Any, content: bytes) -> bool:
    """Whether a signature of these bytes was made with the secret part of a public key."""
    invalid = require("cryptography.exceptions", "federated").InvalidSignature
    try:
        key = require(ED25519, "federated").Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), content)
    except (invalid, ValueError, TypeError):
        return False
    return True


def _private(secret: bytes) -> Any:
    return require(ED25519, "federated").Ed25519PrivateKey.from_private_bytes(secret)
