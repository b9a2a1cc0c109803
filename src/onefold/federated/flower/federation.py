"""A running federation from Python: ask it, see who is there, let sites in and go, run its server.

The object works on the server's folder, beside a server that another process runs or that it runs itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from onefold._base.arrays import Array
from onefold._base.files import make_folder
from onefold._base.validation import Number, Whole, check_parameter
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.access.signatures import KeySignature, SigningKey, find_signing_key, user_name
from onefold.federated.contract import check_query_schema, class_labels
from onefold.federated.fhe import Querier
from onefold.federated.flower.asking import (
    Collected,
    Combining,
    Loaded,
    QueryResult,
    Sign,
    ask_members,
    finite_rows,
    joined,
    keep_held_out,
    new_query_id,
    of_sum,
    unsigned,
)
from onefold.federated.flower.encrypted import (
    ANSWERS_SUFFIX,
    BITS,
    AnswersFile,
    EncryptedPart,
    Keyring,
    QueryKeyFile,
    ask_encrypted,
    collected,
    decrypted,
    map_of,
    query_key_of,
)
from onefold.federated.flower.folders import ServerFolder, ServerSettings, SiteFolder
from onefold.federated.flower.nodes import ServerNode
from onefold.federated.flower.numbers import serve_numbers
from onefold.federated.flower.processes import Background, Watch
from onefold.federated.flower.registry import Registry, RegistryEntry
from onefold.federated.flower.rounding import PlainMap, chosen_map, cost
from onefold.federated.flower.setup import add_site, add_with_folder, create_federation, renew
from onefold.federated.flower.site_app import column_names
from onefold.federated.flower.spool import Spool
from onefold.federated.flower.status import FederationStatus, status_of, wait_for_sites
from onefold.federated.flower.sums import KeptSums
from onefold.federated.joined_server import JoinedFederation
from onefold.federated.messages import MOMENTS, NUMBERS, Profile, QueryKey, columns_digest
from onefold.federated.moments import MomentFederation
from onefold.federated.number_sums import NumberResult, answered_by
from onefold.federated.server import Result
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND

TIMEOUT = 60.0
BATCH_SIZE = 5000

PathLike = str | os.PathLike[str]
Sums = TypeVar("Sums", JoinedFederation, MomentFederation)
ANSWERED_BY_SERVER = "the server answers, from private moments: no site's answer can be encrypted"
NOBODY = "no site has joined the federation yet"
PREDICT_NUMBERS = "the sites predict numbers, not classes: ask with predict_numbers (query --schema)"
NO_NUMBERS = "the sites tell classes apart and predict no numbers: ask with query"


class Federation(Background):
    """A federation seen from its server's folder.

    Every method but :meth:`start` and :meth:`serve` works beside a server that another process runs, from a
    notebook for example. As a context manager it stops the server that it started, and nothing else.

    Keep one object for many queries: models and sums that the server holds are read once, and again when they
    have changed. Threads may call :meth:`query` of one object at the same time; queries of one querier that
    wait together travel together.

    Parameters
    ----------
    folder : str or path-like, default=None
        The server's folder, or the folder of the whole federation. None looks in this folder, in ``server``
        and in ``federation/server``.

    Attributes
    ----------
    folder : ServerFolder
        The folder and the paths in it.
    settings : ServerSettings
        Address, mode and rule, as the folder holds them now.
    sites : tuple of str
        Sites whose answers count, sorted.

    See Also
    --------
    Site : The other end.
    onefold.federated.simulate : A whole federation in one process, without a network.

    Notes
    -----
    Whoever can read the server's folder is the server's operator: no other right is needed, and none is
    given. In query mode the rows of a query go to every site in clear, unless the sites have sent private
    moments: these queries stay at the server.

    Examples
    --------
    >>> import tempfile
    >>> from onefold.federated.flower import Federation
    >>> home = tempfile.TemporaryDirectory()
    >>> fed = Federation.create(home.name, ["north", "south"], insecure=True)
    >>> fed.status().running, [site.name for site in fed.status().sites]
    (False, ['north', 'south'])
    >>> fed.remove("south").sites
    ()
    >>> home.cleanup()

    With a running server and its sites:

    >>> with Federation("federation/server") as fed:  # doctest: +SKIP
    ...     result = fed.query(X, rule="checked", n_liars=1)
    ...     result.predictions, result.partial, result.missing
    """

    def __init__(self, folder: PathLike | None = None) -> None:
        self.folder = ServerFolder.find(folder)
        self._loaded = Loaded(self.folder)

    # --- setting up -----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        root: PathLike,
        sites: Sequence[str],
        *,
        host: str = "127.0.0.1",
        port: int = 8443,
        mode: str = "query",
        rule: str = "min",
        n_liars: int = 1,
        held_out: tuple[Any, Any] | None = None,
        schema: Schema = AS_THEY_STAND,
        own_keys: bool = False,
        insecure: bool = False,
        most_rows: int | None = None,
        approval: str | None = None,
    ) -> Federation:
        """Make the folders, keys and certificates of a new federation.

        Parameters
        ----------
        root : str or path-like
            Folder to make; it gets ``server``, ``sites`` with a folder for each site, and ``GUIDE.md``.
        sites : sequence of str
            Names of the sites.
        host : str, default="127.0.0.1"
            Name or address under which the sites reach the server.
        port : int, default=8443
            Port of the server.
        mode : {"query", "model"}, default="query"
            Whether rows go to the sites and numbers return, or private models travel once.
        rule : str, default="min"
            How answers are combined, see :class:`onefold.federated.GlobalClassifier`.
        n_liars : int, default=1
            Number of lying sites that the rule is to withstand.
        held_out : tuple of array-like (X, y), default=None
            Rows with known classes that no site knows, for the weighted rule.
        schema : Schema, default=AS_THEY_STAND
            The declared contract of the sites' tables, by which held-out rows are encoded.
        own_keys : bool, default=False
            Make no keys for the sites: each makes its own.
        insecure : bool, default=False
            Plaintext without keys, for tests on the loopback address only.
        most_rows : int, default=None
            Most rows that one site may contribute to plain sums; None takes any number.
        approval : {"anyone", "queriers", "purposes"}, default=None
            Whom the sites answer until they decide otherwise: anyone whom the server lets ask, queriers that
            the site's data owner has approved, or what was approved of each querier and purpose. None is
            "queriers", and "anyone" in plaintext.

        Returns
        -------
        Federation
            The federation; its server does not run yet.

        Raises
        ------
        InvalidInputError
            If there is a federation already, or a setting cannot be used.
        """
        schema = Schema.of(schema)
        settings = ServerSettings(host, port, mode, rule, n_liars, insecure, most_rows)
        rows = labelled(held_out, schema)
        if (rule == "weighted") != (rows is not None):
            raise InvalidInputError("the weighted rule needs held-out rows (--held-out FILE), others none")
        place = make_folder(root)
        made = create_federation(place, list(sites), settings, own_keys, approval)
        if rows is not None:
            keep_held_out(made, rows)
        return cls(made.root)

    def add(
        self, site: str, public_key: PathLike | None = None, *, make: PathLike | None = None
    ) -> Path | None:
        """Let a site in by its public key; a running server takes notice within seconds.

        Parameters
        ----------
        site : str
            Name of the site: a new one, one that was removed, or one that was invited and never came.
        public_key : str or path-like, default=None
            File of its public key (ECDSA on a NIST curve, in OpenSSH's format); None in plaintext, or with
            ``make``.
        make : str or path-like, default=None
            Make the folder that the site gets; without ``public_key`` with a key pair in it.

        Returns
        -------
        Path or None
            The folder that was made. It must be handed over by a safe way if it holds a private key.
        """
        key = None if public_key is None else Path(public_key)
        if make is None:
            add_site(self.folder, site, key)
            return None
        return add_with_folder(self.folder, site, key, SiteFolder(Path(make))).root

    def remove(self, site: str) -> Self:
        """Take a site out with everything it contributed, whether the server is running or not.

        It is asked nothing any more and told so when it connects, its model and its sums are deleted, and
        every later answer is that of a federation which never had it.

        Parameters
        ----------
        site : str
            Name of the site.

        Returns
        -------
        Federation
            This object.

        Raises
        ------
        InvalidInputError
            If no site of that name is in the federation.
        """
        Registry(self.folder).remove(site)
        return self

    # --- looking --------------------------------------------------------------------------------------

    @property
    def settings(self) -> ServerSettings:
        """Address, mode and rule, as the folder holds them now."""
        return self.folder.settings

    @property
    def sites(self) -> tuple[str, ...]:
        """Sites whose answers count, sorted."""
        return tuple(Registry(self.folder).members)

    @property
    def is_running(self) -> bool:
        """Whether the server is running, in this process or another."""
        return Spool(self.folder.spool).status() is not None

    def status(self) -> FederationStatus:
        """Tell which sites take part, which are connected, and what each promises; check the membership log.

        Returns
        -------
        FederationStatus
            The state of the federation now.

        Raises
        ------
        TamperedLogError
            If the log of who came and went was edited.
        """
        return status_of(self.folder)

    def renew(self, *, authority: bool = False) -> dict[str, Any]:
        """Write a new certificate of the server, valid for a year; the server uses it when it starts again.

        Parameters
        ----------
        authority : bool, default=False
            Renew the authority's certificate too, for the same key. The file ``ca.crt`` of the server's
            folder then has to replace that of every site before the old one ends.

        Returns
        -------
        dict of str to Any
            When the certificates end, as ``certificate`` and ``authority``.

        Raises
        ------
        InvalidInputError
            In a plaintext federation, without the authority's key, or if the authority's certificate has
            ended and is not renewed.
        """
        return renew(self.folder, authority=authority)

    def plain_sums(self) -> JoinedFederation:
        """Return the sums without noise that the sites sent, for example to measure what each does to them.

        Returns
        -------
        JoinedFederation
            The sums of the sites that take part; its method ``influence`` leaves out one site after another.

        Raises
        ------
        FederationError
            If the sites send none, or a file is damaged.
        """
        return _sent(KeptSums(self.folder).joined(Registry(self.folder).members), "plain sums")

    def moments(self) -> MomentFederation:
        """Return the private moments that the sites sent, for example to fit another model to their sum.

        Returns
        -------
        MomentFederation
            The moments of the sites that take part.

        Raises
        ------
        FederationError
            If the sites send none, or a file is damaged.

        See Also
        --------
        numbers : The same for numbers to predict.
        """
        return _sent(KeptSums(self.folder).moments(Registry(self.folder).members), "private moments")

    def numbers(self, schema: Schema) -> MomentFederation:
        """Return the moments of numbers to predict that the sites sent, for example to fit a model to some.

        Parameters
        ----------
        schema : Schema
            The declared contract of the sites' tables.

        Returns
        -------
        MomentFederation
            The moments of the sites that take part.

        Raises
        ------
        FederationError
            If the sites send none, or a file is damaged.
        """
        sums = KeptSums(self.folder).numbers(Registry(self.folder).members, schema)
        return _sent(sums, "moments of numbers to predict")

    @property
    def predicts_numbers(self) -> bool:
        """Whether the sites that take part sent moments of numbers to predict."""
        profiles = (site.profile for site in Registry(self.folder).members.values())
        return any(profile is not None and profile.measure == NUMBERS for profile in profiles)

    def wait_for(self, sites: Iterable[str] = (), timeout: float = 300.0) -> Self:
        """Wait until the server is running and some sites have joined and are connected.

        Parameters
        ----------
        sites : iterable of str, default=()
            Names of the sites; none waits for the server only.
        timeout : float, default=300.0
            Seconds to wait.

        Returns
        -------
        Federation
            This object.

        Raises
        ------
        FederationError
            If a site is not there in time, was refused, or the server is not running.
        InvalidInputError
            If a site is not in the federation.
        """
        wait_for_sites(self.folder, sites, timeout)
        return self

    # --- asking ---------------------------------------------------------------------------------------

    def query(
        self,
        X: Any,
        *,
        schema: Schema = AS_THEY_STAND,
        columns: Sequence[str] | None = None,
        encrypted: bool = False,
        rule: str | None = None,
        n_liars: int | None = None,
        held_out: tuple[Any, Any] | None = None,
        timeout: float = TIMEOUT,
        batch_size: int = BATCH_SIZE,
        querier: str | SigningKey | None = None,
        purpose: str = "",
        bits: int | None = None,
        bound: float | None = None,
        power: float | None = None,
        floor: float | None = None,
        looks: int | None = None,
        fit_on: Any = None,
        keys: PathLike | None = None,
        mix: bool = False,
    ) -> QueryResult:
        """Predict the class of every row from the answers of all sites.

        Where sites have sent private moments, the server answers from the sum of those that take part: no
        site is asked or sees the rows, and the server need not be running.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Rows with the features of the sites, in their order and units; with a schema a table, whose
            columns may stand in any order.
        schema : Schema, default=AS_THEY_STAND
            The declared contract of the sites' tables, needed if they have one. The rows are encoded by it; a
            cell without a value in it counts as missing.
        columns : sequence of str, default=None
            Names of the features, compared with those of the sites; None takes those of a data frame.
        encrypted : bool, default=False
            Have the sites answer under your own key, so that neither the server nor another site reads an
            answer. Only the minimum can be computed so, and only in query mode: rules that withstand lying
            sites have to read the answers of each.
        rule : str, default=None
            How answers are combined for this query; None takes the server's rule.
        n_liars : int, default=None
            Number of lying sites to withstand; None takes the server's. Not for an encrypted query.
        held_out : tuple of array-like (X, y), default=None
            Rows with known classes for the weighted rule; None takes those in the server's folder. Classes
            of None are those of the label column of the schema.
        timeout : float, default=60.0
            Seconds that the sites have. Whoever has not answered then is missing from the result.
        batch_size : int, default=5000
            Rows in one message.
        querier : str or SigningKey, default=None
            Who asks. With a signing key, or the name of one in ``~/.local/share/onefold/queriers``, queries
            are signed, as sites that approve queriers require; None takes the user's name.
        purpose : str, default=""
            What the answers are for, one line that is signed and shown to the data owners.
        bits : int, default=None
            For an encrypted query: bits of a measure; None takes 8.
        bound : float, default=None
            For an encrypted query: the plain map, in which measures above are taken for ``bound``. None fits
            the map to the rows of the query, which server and sites see anyway; with a single row, or
            if ``power`` or ``floor`` is given, it takes 1 for the folding measures, the spread of the rows
            for distances, and its square where sites send plain sums.
        power : float, default=None
            For an encrypted query: exponent of the scaled measure in the plain map; None takes 1.
        floor : float, default=None
            For an encrypted query: measures below are taken for ``floor`` in the plain map; None takes 0.
        looks : int, default=None
            For an encrypted query: how often every row is answered, each time with other boundaries between
            the numbers; bytes and time grow with it. None takes 4, up to 16 for few rows or the plain map,
            and 1 for more than 8 bits.
        fit_on : array-like of shape (n, p), or table, default=None
            For an encrypted query: public rows, at least two, to which the map is fitted instead of the rows
            of the query. Server and sites see 65 numbers that follow from them.
        keys : str or path-like, default=None
            For an encrypted query: folder of your secret keys, never inside the server's folder; None takes
            ``~/.local/share/onefold/keys``.
        mix : bool, default=False
            Combine answers with noise and answers without. They are not comparable: rows without noise are
            closer to most queries, so that these sites decide alone. False refuses it.

        Returns
        -------
        QueryResult
            Predictions, measures, and who had a part in them.

        Raises
        ------
        ServerBusyError
            If too many queries wait at the server already: try again after its ``seconds``.
        FederationError
            If the server is not running or does not reply, no site takes part, or no answer can be used.
        InvalidInputError
            If the rows do not have the features of the sites, or the options do not go together.
        """
        schema = Schema.of(schema)
        if encrypted:
            check_encrypted(self.settings, rule, n_liars, held_out)
        elif any(value is not None for value in (bits, bound, power, floor, looks, fit_on, keys)):
            raise InvalidInputError(
                "bits, bound, power, floor, looks, fit_on and keys are for encrypted queries"
            )
        else:
            combining = Combining(self.folder, rule, n_liars, labelled(held_out, schema))
        rows, members = checked_rows(self.folder, X, schema, columns, timeout, batch_size, mix)
        moments = self._loaded.moments(members)
        if moments is not None:
            check_of_sum(encrypted, rule, n_liars, held_out)
            return of_sum(rows, moments, tuple(members), Registry(self.folder).kept_out)
        question = Question(self.folder, rows, members, *asker_of(querier), purpose, timeout, batch_size)
        if not encrypted:
            return joined(question.in_clear(combining, self._loaded), Registry(self.folder).kept_out)
        if fit_on is not None:
            fit_on = finite_rows(schema.transform(fit_on))
        own, key = question.own_key(bits, (bound, power, floor), looks, fit_on, keys)
        parts = question.encrypted(key, lambda: own.evaluation_keys().to_bytes())
        about = map_of(key) | cost(own.parameters, [part.n_rows for part in parts], parts[0].looks)
        return decrypted(own, key.classes, parts, about)

    def predict_numbers(self, X: Any, *, schema: Schema, level: float = 0.9) -> NumberResult:
        """Predict the number of every row from the sum of what the sites sent.

        No site is asked or sees the rows, and the server need not be running.

        Parameters
        ----------
        X : table
            Rows, whose columns may stand in any order.
        schema : Schema
            The declared contract of the sites' tables.
        level : float, default=0.9
            Share of the numbers that the intervals are meant to hold.

        Returns
        -------
        NumberResult
            Predictions, their intervals, and what the sites' records are promised.

        Raises
        ------
        FederationError
            If no site takes part, or a file is damaged.
        InvalidInputError
            If the schema is not that of the sites, or they predict no numbers.
        """
        members = Registry(self.folder).members
        if not members:
            raise FederationError(NOBODY)
        check_query_schema(schema, [site.profile for site in members.values() if site.profile is not None])
        model = self._loaded.numbers(members, schema)
        if model is None:
            raise InvalidInputError(NO_NUMBERS)
        return answered_by(model, X, level, tuple(members), Registry(self.folder).kept_out)

    def collect(
        self,
        X: Any,
        query_key: PathLike,
        out: PathLike,
        *,
        schema: Schema = AS_THEY_STAND,
        columns: Sequence[str] | None = None,
        timeout: float = TIMEOUT,
        batch_size: int = BATCH_SIZE,
        querier: str | SigningKey | None = None,
        purpose: str = "",
        mix: bool = False,
    ) -> Collected:
        """Ask under the query key of a querier elsewhere, and write what only the querier can decrypt.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Rows with the features of the sites.
        query_key : str or path-like
            File that the querier made with :func:`make_query_key`.
        out : str or path-like
            File to write, ending in ``.encrypted``; it goes back to the querier.
        schema : Schema, default=AS_THEY_STAND
            The declared contract of the sites' tables, as in :meth:`query`.
        columns : sequence of str, default=None
            Names of the features, as in :meth:`query`.
        timeout : float, default=60.0
            Seconds that the sites have.
        batch_size : int, default=5000
            Rows in one message.
        querier : str or SigningKey, default=None
            Who asks, as in :meth:`query`: whoever runs this, unless the query key is signed by its holder.
        purpose : str, default=""
            What the answers are for, as in :meth:`query`.
        mix : bool, default=False
            Combine answers with noise and answers without, as in :meth:`query`.

        Returns
        -------
        Collected
            Where the file is and who had a part in it.

        Raises
        ------
        FederationError
            As in :meth:`query`.
        InvalidInputError
            As in :meth:`query`, or if the file is no query key.
        """
        schema = Schema.of(schema)
        if Path(out).suffix != ANSWERS_SUFFIX:
            raise InvalidInputError(f"{out}: the name must end in {ANSWERS_SUFFIX}")
        check_encrypted(self.settings, None, None, None)
        key = QueryKeyFile.load(query_key)
        rows, members = checked_rows(self.folder, X, schema, columns, timeout, batch_size, mix)
        if any(site.profile is not None and site.profile.measure == MOMENTS for site in members.values()):
            raise InvalidInputError(ANSWERED_BY_SERVER)
        question = Question(self.folder, rows, members, *asker_of(querier), purpose, timeout, batch_size)
        parts = question.encrypted(key.query_key, lambda: key.evaluation_keys, key.signature)
        AnswersFile(key.key_id, key.query_key.classes, tuple(parts)).save(out, public=True)
        return collected(Path(out), key.key_id, parts)

    # --- running the server ---------------------------------------------------------------------------

    def start(self, bind: str | None = None) -> Self:
        """Start the server in the background of this process, and return when it is ready.

        Parameters
        ----------
        bind : str, default=None
            Address to listen on; None listens on all of this machine's, or on the loopback address if that
            is the server's host.

        Returns
        -------
        Federation
            This object; :meth:`stop`, leaving a ``with`` block or the end of the process stops the server.

        Raises
        ------
        FederationError
            If the server does not start, or its port is in use.
        """
        if self._watch is not None:
            raise FederationError("this object runs the server already")
        server = ServerNode(self.folder, bind)
        server.start()
        self._watch = Watch(server.check, server.stop)
        return self

    def serve(
        self,
        seconds: float | None = None,
        *,
        bind: str | None = None,
        ready: Callable[[ServerSettings], None] | None = None,
        keep_going: Callable[[], bool] = lambda: True,
        say: Callable[[str], None] = lambda _: None,
        queue: int | None = None,
        metrics: int | None = None,
    ) -> None:
        """Run the server until interrupted.

        Parameters
        ----------
        seconds : float, default=None
            Stop after this time.
        bind : str, default=None
            Address to listen on, as in :meth:`start`.
        ready : callable, default=None
            Called with the settings when the server is ready.
        keep_going : callable, default=lambda: True
            Called twice a second; when it returns False the server stops.
        say : callable, default=lambda _: None
            Told in single lines what an operator should know, such as a full disk.
        queue : int, default=None
            How many queries may wait or be on their way before more are refused with a
            :class:`ServerBusyError`; kept in the folder. None leaves it as it is, 256 at first.
        metrics : int, default=None
            Port on 127.0.0.1 at which a monitoring program reads numbers of the server.
        """
        if queue is not None:
            replace(self.settings, queue=queue).save(self.folder.settings_file)
        with ServerNode(self.folder, bind, say) as server, ExitStack() as stack:
            if metrics is not None:
                endpoint = serve_numbers(server, metrics)
                stack.callback(endpoint.server_close)
                stack.callback(endpoint.shutdown)
            if ready is not None:
                ready(server.settings)
            Watch.until(server.check, seconds, keep_going)

    def stop(self) -> None:
        """Forget what was read, and stop the server if this object started one.

        Raises
        ------
        FederationError
            If the server had failed before.
        """
        self._loaded.clear()
        super().stop()

    def __repr__(self) -> str:
        return f"Federation({str(self.folder.root)!r})"


def _sent(sums: Sums | None, what: str) -> Sums:
    """The sums of the sites that take part; refused if they send none."""
    if sums is None:
        raise FederationError(f"no site of this federation sends {what}")
    return sums


# --- a question: what it must be, who asks it, and the ways of asking ------------------------------------


def checked_rows(
    folder: ServerFolder,
    X: Any,
    schema: Schema,
    columns: Sequence[str] | None,
    timeout: float,
    batch_size: int,
    mix: bool,
) -> tuple[Array, Mapping[str, RegistryEntry]]:
    """The rows, and those who will be asked: at least one, with the same schema or the same columns."""
    check_parameter("timeout", timeout, Number(above=0))
    check_parameter("batch_size", batch_size, Whole(1))
    rows, names = finite_rows(schema.transform(X)), None
    if schema.plain:
        names = column_names(X) if columns is None else tuple(columns)
    if names is not None and len(names) != rows.shape[1]:
        raise InvalidInputError(f"there are {len(names)} column names for {rows.shape[1]} feature(s)")
    members = Registry(folder).members
    if not members:
        raise FederationError(NOBODY)
    profiles: list[Profile] = [site.profile for site in members.values() if site.profile is not None]
    if any(profile.measure == NUMBERS for profile in profiles):
        raise InvalidInputError(PREDICT_NUMBERS)
    if not mix:
        _check_alike(profiles)
    check_query_schema(schema, profiles)
    widths = {profile.n_features for profile in profiles}
    if widths and rows.shape[1] not in widths:
        raise InvalidInputError(
            f"the rows have {rows.shape[1]} feature(s), those of the sites have {max(widths)}"
        )
    digest = columns_digest(names)
    if digest is not None and any(profile.columns not in (None, digest) for profile in profiles):
        raise InvalidInputError("the columns are not those of the sites, or in another order")
    return rows, members


def _check_alike(profiles: Sequence[Profile]) -> None:
    """Refuse to combine answers with noise and answers without: those without would decide alone."""
    noisy = sorted(profile.site for profile in profiles if profile.guarantee is not None)
    plain = sorted(profile.site for profile in profiles if profile.guarantee is None)
    if noisy and plain:
        raise InvalidInputError(
            f"{', '.join(noisy)} answer(s) with noise and {', '.join(plain)} without, so {', '.join(plain)} "
            "would decide alone: let all sites add noise or none, or say that you want this (--mix)"
        )


def check_encrypted(settings: ServerSettings, rule: str | None, n_liars: int | None, held_out: Any) -> None:
    """Refuse what an encrypted query cannot do."""
    if settings.mode == "model":
        raise InvalidInputError("encrypted queries are for query mode: in model mode no site is asked")
    if (settings.rule if rule is None else rule) != "min":
        raise InvalidInputError(
            "an encrypted query can only take the minimum, because nobody reads the answers of a single "
            "site: give the rule min (--rule min)"
        )
    if n_liars is not None:
        raise InvalidInputError("the rule min withstands no lying site: leave out n_liars (--liars)")
    if held_out is not None:
        raise InvalidInputError("held-out rows (--held-out) are for the weighted rule only")


def check_of_sum(encrypted: bool, rule: str | None, n_liars: int | None, held_out: Any) -> None:
    """Refuse what a query cannot do that the server answers from the sum of private moments."""
    if encrypted:
        raise InvalidInputError(ANSWERED_BY_SERVER)
    if rule not in (None, "min") or not (n_liars is None and held_out is None):
        raise InvalidInputError(
            "the sites have sent private moments, whose sum is one model: there are no answers of "
            "sites for a rule to combine (leave out --rule, --liars and --held-out)"
        )


def labelled(held_out: tuple[Any, Any] | None, schema: Schema) -> tuple[Array, Array] | None:
    """Held-out rows as sites are asked about them, and their classes."""
    if held_out is None:
        return None
    return finite_rows(schema.transform(held_out[0])), class_labels(schema, *held_out)


def asker_of(querier: str | SigningKey | None) -> tuple[str, SigningKey | None]:
    """The name of who asks, and the key that signs, if there is one."""
    if isinstance(querier, SigningKey):
        return querier.key.name, querier
    name = user_name() if querier is None else querier
    key = find_signing_key(name)
    return (name if key is None else key.key.name), key


@dataclass(frozen=True, eq=False)
class Question:
    """Rows, whom they are asked, and who asks: what every way of asking needs.

    Parameters
    ----------
    folder : the server's. rows, members : from :func:`checked_rows`. asker, key : from :func:`asker_of`.
    purpose : what the answers are for. timeout : seconds that sites have. batch_size : rows in one message.
    """

    folder: ServerFolder
    rows: Array
    members: Mapping[str, RegistryEntry]
    asker: str
    key: SigningKey | None
    purpose: str
    timeout: float
    batch_size: int

    def in_clear(self, combining: Combining, loaded: Loaded) -> list[Result]:
        """Ask, and combine what comes back, batch by batch."""
        starts = range(0, len(self.rows), self.batch_size)
        asked = [
            combining.query(self.rows[start : start + self.batch_size], new_query_id()) for start in starts
        ]
        queries = [each.mixed for each in asked]
        sign = self._sign(sum(len(query.features) for query in queries), combining.server.rule)
        # Closed here and not by the garbage collector: of a query that fails nothing stays in the spool.
        with closing(ask_members(self.folder, queries, self.asker, self.timeout, sign, loaded)) as gathered:
            return [combining.result(each, found) for each, found in zip(asked, gathered, strict=True)]

    def encrypted(
        self, lock: QueryKey, keys: Callable[[], bytes], stated: KeySignature | None = None
    ) -> list[EncryptedPart]:
        """Ask under a query key."""
        asker, sign = self.asker, self._sign(len(self.rows), "min")
        if stated is not None:  # its holder asks, whoever sends the rows
            asker, sign = stated.name, lambda query, key: stated
        how = (len(self.members), asker, self.timeout, self.batch_size, sign)
        return ask_encrypted(self.folder, self.rows, lock, keys, *how)

    def own_key(
        self, bits: int | None, plain: PlainMap, looks: int | None, public: Array | None, keys: Any
    ) -> tuple[Querier, QueryKey]:
        """The secret key of who runs this, and its public part for the sites' classes and a map."""
        bits = BITS if bits is None else bits
        profiles = [site.profile for site in self.members.values() if site.profile is not None]
        classes = sorted({label for profile in profiles for label in profile.classes})
        measured = (profiles[0].measure, profiles[0].scale) if profiles[0].sums is None else ("joined", None)
        map_ = chosen_map(*measured, bits, plain, looks, public, self.rows)
        ring = Keyring(keys, away_from=self.folder.root)
        querier = ring.querier(len(self.members), len(classes), bits)
        return querier, query_key_of(querier, classes, bits, map_)

    def _sign(self, amount: int, rule: str) -> Sign:
        """What signs the messages of this question."""
        if (key := self.key) is None:
            return unsigned
        id_, purpose = self.folder.federation_id, self.purpose
        return lambda query, query_key: key.sign(
            query, id_, purpose=purpose, amount=amount, rule=rule, query_key=query_key
        )
