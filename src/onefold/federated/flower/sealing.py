"""The site's role in an encrypted query: its numbers, made whole and encrypted under the querier's key.

The site sees the public key only. It can decrypt nothing, not even its own message.
"""

from __future__ import annotations

import numpy as np

from onefold.exceptions import MessageError, MissingDependencyError, QueryRefused
from onefold.federated.fhe import Client, Quantiser
from onefold.federated.fhe.messages import PublicKey, from_bytes, to_bytes
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.messages import Answers, ClassLabels, FailureCode, Limits, Lock, SealedAnswers
from onefold.federated.rules import align

__all__ = ["opened_lock", "quantised", "sealed"]


def opened_lock(folder: SiteFolder, lock: Lock, own: ClassLabels, n_rows: int) -> Client:
    """What encrypts under a lock, if the owner allows this key and the site can answer under it.

    Whoever made the key can read what is encrypted with it, and the key comes by way of the server: an owner
    who does not trust the server says which keys are a querier's.
    """
    trusted = folder.trusted_key_ids
    if trusted is not None and lock.key_id not in trusted:
        raise QueryRefused(FailureCode.UNTRUSTED_KEY)
    if not set(own) <= set(lock.classes):
        raise QueryRefused(FailureCode.OTHER_CLASSES)
    try:
        key = from_bytes(PublicKey, lock.content)
        if (key.key_id, key.n_classes, key.bits) != (lock.key_id, len(lock.classes), lock.bits):
            raise MessageError("the lock and its key do not belong together")
        if key.parameters.message_size(n_rows) > Limits().max_bytes:
            raise QueryRefused(FailureCode.TOO_LARGE)
        return Client(key, folder.settings.name)
    except MissingDependencyError:
        raise QueryRefused(FailureCode.NO_ENCRYPTION) from None
    except MessageError:
        raise QueryRefused(FailureCode.MALFORMED) from None


def quantised(answers: Answers, lock: Lock) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Whole numbers for the classes of a lock: the same map at every site; -1 for a class it lacks."""
    values = answers.values.astype(np.float64)
    aligned = align(values, np.array(answers.classes), np.array(lock.classes), np.nan)
    quantiser = Quantiser(lock.bits, 1.0, lock.power, min(lock.floor / lock.bound, np.nextafter(1.0, 0.0)))
    with np.errstate(over="ignore"):  # a tiny bound: beyond it all is one
        return quantiser.quantise(np.minimum(aligned / lock.bound, 1.0))


def sealed(client: Client, answers: Answers, lock: Lock) -> SealedAnswers:
    """The message of a site, which only the server's sum and the querier's key together make readable."""
    encrypted = client.encrypt(quantised(answers, lock), answers.query_id)
    return SealedAnswers(answers.query_id, answers.site, to_bytes(encrypted))
