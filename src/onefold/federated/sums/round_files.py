"""The files of one round of an encrypted sum: one folder, whoever carries what is in it.

All transports write the same files: a round may begin with files and go on over a network, or the other way
round, and whoever has a copy of the folder can open the sum.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from onefold._base.files import file_lock, write_whole
from onefold._base.frames import join_frames, split_frames
from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.sums.keys import BFV
from onefold.federated.sums.schema import SchemaSum

__all__ = ["ANSWER", "KEPT", "MESSAGE", "OFFERED", "SIGNED", "RoundFiles"]

MESSAGE, SIGNED, ANSWER = "sum", "signed", "answer"
# At a holder: what it has signed, and what it was asked to sign; at the server of one key: the total for it.
KEPT, OFFERED = "messages", "offered"
LISTED = "list"


class RoundFiles:
    """A round of an encrypted sum and the folder of its files.

    Parameters
    ----------
    summed : SchemaSum
        The sum.
    share : str or os.PathLike
        The folder; it must exist.

    See Also
    --------
    EncryptedSum : The steps that write the files.

    Examples
    --------
    >>> files = RoundFiles(SchemaSum.load("share/spring.contract"), "share")  # doctest: +SKIP
    >>> files.path("north", MESSAGE)  # doctest: +SKIP
    PosixPath('share/spring.north.sum')
    """

    def __init__(self, summed: SchemaSum, share: str | os.PathLike[str]) -> None:
        self.summed, self.total, self.contract = summed, summed.total, summed.total.contract
        self.share = Path(share)
        if not self.share.is_dir():
            raise InvalidInputError(f"{self.share}: there is no such folder")

    @property
    def holders(self) -> list[str]:
        """Names of the holders."""
        return [holder.name for holder in self.contract.holders]

    @property
    def in_words(self) -> str:
        """Which contract it is, and who can read: digest and fingerprints, for people to compare."""
        keys = ", ".join(f"{name} {key.fingerprint}" for name, key in self.contract.keys.items())
        contract = f"round {self.contract.round_id}, contract {self.contract.digest[:32]}"
        return f"{contract}, keys {keys}: the same for all?"

    def path(self, who: str, kind: str, folder: Path | None = None) -> Path:
        """Return the file of a site or holder.

        Parameters
        ----------
        who : str
            Name of the site or holder.
        kind : str
            What is in it.
        folder : Path or None, default=None
            Another folder than that of the round.

        Returns
        -------
        Path
            The file, which need not exist.
        """
        return (self.share if folder is None else folder) / f"{self.contract.round_id}.{who}.{kind}"

    def found(self, names: Iterable[str], kind: str) -> dict[str, Path]:
        """Return the files of a kind that are there.

        Parameters
        ----------
        names : iterable of str
            Sites or holders.
        kind : str
            What is in the files.

        Returns
        -------
        dict of str to Path
            Those that are there.
        """
        paths = {name: self.path(name, kind) for name in names}
        return {name: path for name, path in paths.items() if path.is_file()}

    def message_of(self, site: str) -> bytes:
        """Return the message of a site, if it is from that site and about this sum.

        Parameters
        ----------
        site : str
            Name of the site; its message must be there.

        Returns
        -------
        bytes
            The message.
        """
        path = self.path(site, MESSAGE)
        content = path.read_bytes()
        try:
            sender = self.total.site_of(content)
        except MessageError as error:
            raise MessageError(f"{path}: {error}") from None
        if sender != site:
            raise MessageError(f"{path}: the message is from another site")
        return content

    def routed(self, sites: Iterable[str]) -> dict[str, list[bytes]]:
        """Return what each holder gets of some sites, whose messages must be there.

        Under one key this is where the server adds up. A total is drawn anew each time and a holder takes one
        per round, so it is kept beside the messages: the same sites give the same bytes.

        Parameters
        ----------
        sites : iterable of str
            Names of the sites.

        Returns
        -------
        dict of str to list of bytes
            As :meth:`EncryptedSum.route` returns it.
        """
        wanted = list(sites)
        if self.contract.scheme != BFV:
            return self.total.route(self.message_of(site) for site in wanted)
        kept = self.path(self.holders[0], OFFERED)
        if kept.is_file():
            envelopes = split_frames(kept.read_bytes())
            headers = [split_frames(envelope)[0] for envelope in envelopes[:-1]]
            if headers == [split_frames(self.message_of(site))[0] for site in wanted]:
                return {self.holders[0]: envelopes}
        found = self.total.route(self.message_of(site) for site in wanted)
        write_whole(kept, join_frames(found[self.holders[0]]), public=True)
        return found

    def listed(self, without: Iterable[str]) -> list[str]:
        """Return the sites that are to be in the sum; refuse other ones than were written down before.

        Parameters
        ----------
        without : iterable of str
            Sites to leave out.

        Returns
        -------
        list of str
            Names of the sites, in the order of the contract.
        """
        left = set(without)
        for site in left:
            self.contract.place(site)
        wanted = [site for site in self.contract.sites if site not in left]
        least = self.contract.least_sites
        if len(wanted) < least:
            raise MessageError(
                f"without {', '.join(sorted(left))} {len(wanted)} of {len(self.contract.sites)} sites are "
                f"left, and {least} are needed"
            )
        known = self._known_list()
        if known is None or known == wanted:
            return wanted
        if not left:
            return known
        raise MessageError(
            f"key holders were asked to sign the sum of {', '.join(known)} in this round, and another list "
            "is refused for ever: go on with that one, or begin a new round"
        )

    def write_list(self, sites: Iterable[str]) -> None:
        """Write down which sites are in the sum, before the first holder is asked to sign.

        Parameters
        ----------
        sites : iterable of str
            What :meth:`listed` returned.
        """
        path, wanted = self._list_path, list(sites)
        with file_lock(path):
            if self._known_list() is None:
                write_whole(path, json.dumps({"sites": wanted}).encode(), public=True)
            elif self._known_list() != wanted:
                raise MessageError("another list of sites was written down in this round meanwhile")

    @property
    def _list_path(self) -> Path:
        return self.share / f"{self.contract.round_id}.{LISTED}"

    def _known_list(self) -> list[str] | None:
        if not self._list_path.is_file():
            return None
        try:
            sites = json.loads(self._list_path.read_bytes())["sites"]
            known = [site for site in self.contract.sites if site in sites]
            if len(known) != len(sites):
                raise ValueError
            return known
        except (ValueError, TypeError, KeyError, RecursionError):
            raise FileFormatError(f"{self._list_path}: damaged: begin a new round") from None
