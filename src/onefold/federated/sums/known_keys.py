"""Keys that a site or holder has met: the first key under a name is kept, and another one is refused."""

import os
from pathlib import Path

from onefold._base.files import file_lock, write_whole
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.messages import check_digest
from onefold.federated.sums.contract import SumContract
from onefold.federated.sums.keys import HolderKey

__all__ = ["OWN", "KnownKeys"]

FILE = "known_keys"
OWN, KNOWN, NEW = "own", "known", "new"


class KnownKeys:
    """The keys under which a site or holder takes part in encrypted sums: its own, and those met before.

    Who can read a site's numbers follows from the keys in the contract. So a contract with another key under
    one's own name is refused, and so is one with another key of a known holder or site.

    Parameters
    ----------
    folder : str or os.PathLike
        Folder of the site or holder, which keeps the keys in a file.
    name : str
        Name of the site or holder.
    key : HolderKey or None, default=None
        Its own key; None if it has none, and then no contract may have a key under its name.

    Attributes
    ----------
    path : Path
        The file: one name per line, with the SHA-256 sum of its key.

    See Also
    --------
    SumContract : Names the keys.

    Examples
    --------
    >>> known = KnownKeys("north", "north", HolderKey.load("north.key"))  # doctest: +SKIP
    >>> known.keep(summed.total.contract)  # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike[str], name: str, key: HolderKey | None = None) -> None:
        self.path, self._name, self._key = Path(folder) / FILE, name, key

    def check(self, contract: SumContract) -> None:
        """Refuse a contract with a foreign key under one's own name, or with another key of a known name.

        Parameters
        ----------
        contract : SumContract
            The contract.
        """
        self._check(contract, self._read())

    def keep(self, contract: SumContract) -> None:
        """Do as :meth:`check`, and keep the keys that were not known.

        Parameters
        ----------
        contract : SumContract
            The contract, which this site or holder is about to take part in.
        """
        with file_lock(self.path):
            digests = self._read()
            self._check(contract, digests)
            new = {name: key.digest for name, key in contract.keys.items()} | digests
            if new != digests:
                lines = (f"{name} {digest}\n" for name, digest in sorted(new.items()))
                write_whole(self.path, "".join(lines).encode())

    def states(self, contract: SumContract) -> dict[str, str]:
        """Return what is known of each key of a contract that was checked.

        Parameters
        ----------
        contract : SumContract
            The contract.

        Returns
        -------
        dict of str to str
            By name "own", "known" or "new".
        """
        digests = self._read()
        return {
            name: OWN if name == self._name else KNOWN if name in digests else NEW for name in contract.keys
        }

    def _check(self, contract: SumContract, digests: dict[str, str]) -> None:
        # Names that differ in capitals only are one name, as in a contract.
        listed = {name.lower(): key for name, key in contract.keys.items()}.get(self._name.lower())
        if listed is not None and self._key is None:
            raise InvalidInputError(
                f"the contract has a key of {self._name} (fingerprint {listed.fingerprint}), and no key was "
                "given to compare it with: give the key of this site, or take no part"
            )
        if listed is not None and self._key is not None and listed != self._key.public:
            raise InvalidInputError(
                f"the contract has another key of {self._name} (fingerprint {listed.fingerprint}) than its "
                f"own ({self._key.public.fingerprint}): give the right key, or take no part: another reads"
            )
        known = {name.lower(): digest for name, digest in digests.items()}
        for name, key in contract.keys.items():
            earlier = known.get(name.lower(), key.digest)
            if earlier != key.digest:
                raise InvalidInputError(
                    f"the contract has another key of {name} (fingerprint {key.fingerprint}) than the known "
                    f"one ({earlier[:32]}): ask {name}; if it has a new key, delete its line in "
                    f"{self.path}"
                )

    def _read(self) -> dict[str, str]:
        if not self.path.is_file():
            return {}
        try:
            lines = self.path.read_text(encoding="ascii").splitlines()
            return {name: check_digest(digest) for name, digest in (line.split(" ") for line in lines)}
        except ValueError:
            raise FileFormatError(f"{self.path}: damaged: take no part before it is restored") from None
