"""A site from Python: fit a model where the data is, say what it promises, and answer queries."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from numpy.typing import ArrayLike
from sklearn.base import clone

from onefold._base.files import remove_file, write_whole
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.access.approvals import Approvals
from onefold.federated.access.log import SiteEvent
from onefold.federated.contract import default_classifier
from onefold.federated.flower.admission import approvals_of, note_sent
from onefold.federated.flower.folders import SiteFolder, SiteSettings
from onefold.federated.flower.keeping import begin_ledger, find_profile, promised, read_profile, recipe_of
from onefold.federated.flower.nodes import GIVE_UP_SECONDS, Node
from onefold.federated.flower.processes import Background, Watch
from onefold.federated.flower.site_app import (
    column_names,
    may_send,
    store_model,
    store_moments,
    store_numbers,
    withdraw_sums,
)
from onefold.federated.flower.sums import NEEDS_CONSENT, NEEDS_SCHEMA, NO_NOISE
from onefold.federated.forgotten import ForgottenPersons, without_forgotten
from onefold.federated.local_model import LocalModel
from onefold.federated.messages import NUMBERS, Profile, check_digest
from onefold.federated.moments import release_moments
from onefold.federated.number_sums import NumberRelease
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import AnyLedger, Ledger, all_of, check_counts
from onefold.privacy.moments import PrivateMoments
from onefold.tables import Schema
from onefold.tables.columns import count_rows
from onefold.tables.formats import is_address, split_address
from onefold.tables.schema import AS_THEY_STAND

PLACES = (".", "sites", "federation/sites")

PathLike = str | os.PathLike[str]
Confirm = Callable[[Guarantee | None, int], None]
Store = Callable[..., Profile]
Make = Callable[[AnyLedger], Store]  # makes a fit that is charged there, and gives what keeps it


class Terms(NamedTuple):
    """Where a fit is charged, how it can be done again, and what asks before it is done."""

    ledger: AnyLedger
    recipe: Mapping[str, Any] | None
    confirm: Confirm | None


class Site(Background):
    """A site of a federation, on the machine with its data.

    Parameters
    ----------
    folder : str or path-like, default="."
        The site's folder, which the server's operator made and handed over. Looked for in this folder, in
        ``sites`` and in ``federation/sites``, so that its name is enough where a federation is tried out.

    Attributes
    ----------
    folder : SiteFolder
        The folder and the paths in it.
    settings : SiteSettings
        Where the server is and what may leave this site, as the folder holds it now.
    profile : Profile
        What the site says about its model to the server.
    forgotten : ForgottenPersons
        Persons whose rows later fits leave out.
    recipe : dict
        How the fit of the model was made, as it was told; empty if it was not.

    See Also
    --------
    Federation : The server's end.
    onefold.federated.LocalModel : The model that a site fits.

    Notes
    -----
    Only outgoing connections to the server are made. The model, the counters of rows answered and the log of
    queries are in the folder, readable by the user's account only. Without a mechanism every answer is a
    function of raw rows: the limits bound how much is asked, not what is learned.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from onefold.federated.flower import Federation, Site
    >>> home = tempfile.TemporaryDirectory()
    >>> _ = Federation.create(home.name, ["north"], insecure=True)
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]])
    >>> site = Site(home.name + "/sites/north").fit(X, ["low", "low", "high", "high"])
    >>> site.profile.classes, site.profile.guarantee
    (('high', 'low'), None)
    >>> site.serve()  # doctest: +SKIP
    >>> home.cleanup()
    """

    def __init__(self, folder: PathLike = ".") -> None:
        found = [SiteFolder(Path(place) / folder) for place in PLACES]
        found = [each for each in found if each.settings_file.is_file()]
        if not found:
            raise InvalidInputError(f"{folder}: no site's folder; name the one made by the server's operator")
        self.folder = found[0]
        self.forgotten = ForgottenPersons(self.folder.store)

    @property
    def settings(self) -> SiteSettings:
        """Where the server is and what may leave this site, as the folder holds it now."""
        return self.folder.settings

    @property
    def profile(self) -> Profile:
        """What the site says about its model to the server."""
        return read_profile(self.folder)

    @property
    def is_running(self) -> bool:
        """Whether :meth:`start` was called and nothing has failed since."""
        return self._watch is not None and self._watch.error is None

    @property
    def is_paused(self) -> bool:
        """Whether the data owner answers nobody at the moment, see :meth:`pause`."""
        return self.folder.paused.exists()

    @property
    def sends_plain_sums(self) -> bool:
        """Whether sums of the rows go to the server without noise: the fit of the model was told so."""
        return self.profile.sends_plain_sums

    @property
    def sends_moments(self) -> bool:
        """Whether private moments of the rows go to the server, which then answers queries by itself."""
        return self.profile.sends_private_sums

    @property
    def predicts_numbers(self) -> bool:
        """Whether what goes to the server are moments of numbers to predict, with noise or without."""
        return self.profile.measure == NUMBERS

    @property
    def model_may_leave(self) -> bool:
        """Whether the model itself may go to the server: its guarantee holds, or the site insists."""
        return may_send(self.settings, self.profile)

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        estimator: Any = None,
        mechanism: Any = None,
        *,
        fabricate: bool = True,
        label_mechanism: Any = None,
        columns: Sequence[str] | None = None,
        person: ArrayLike | None = None,
        ledger: AnyLedger = None,
        schema: Schema = AS_THEY_STAND,
        send_plain_sums: bool = False,
        recipe: Mapping[str, Any] | None = None,
        confirm: Confirm | None = None,
    ) -> Self:
        """Fit a model of the site's rows and keep it in the folder; its rows are not kept.

        Rows of persons who were forgotten (:meth:`forget`) are left out first. The new model takes the place
        of the earlier one in one step: a program that stops half-way leaves the earlier one. A site that runs
        from the folder connects again by itself, and the server takes the new model.

        Every fit with a mechanism draws new noise and spends its epsilon again: fit once. The folder's
        ``ledger.db`` counts these fits, per person if the first one promises something to persons,
        otherwise per record. The first one makes it if it is not there. Make it before, with ``onefold ledger
        new``, to set a limit.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Rows of this site; with a schema a table.
        y : array-like of shape (n,), default=None
            Class of each row, whole numbers or texts; None takes the label column of the schema.
        estimator : estimator, default=None
            Classifier with ``distances``, as in :class:`onefold.federated.LocalModel`; the same at all sites.
        mechanism : Mechanism, default=None
            Noise for the rows, for example ``OptimalNoise(1.0, sensitivity=Box(0.0, 1.0))``; None models raw
            rows.
        fabricate : bool, default=True
            Smooth after the noise.
        label_mechanism : RandomisedLabels, default=None
            Noise for the labels; None leaves labels and class sizes uncovered.
        columns : sequence of str, default=None
            Names of the features, which the server compares; None takes those of a data frame.
        person : array-like of shape (n,), default=None
            Who each row is about, for a mechanism with ``rows_per_person``: rows of a person above that
            number are dropped at random before anything else.
        ledger : Ledger or path, default=None
            Account in which a fit with noise is entered before any noise is drawn, besides the folder's own;
            a fit beyond the limit of either is refused. A folder whose ledger has counted a fit takes
            another one only if a ledger is named; its own will do.
        schema : Schema, default=AS_THEY_STAND
            The declared contract of the table, the same at all sites, as in
            :class:`onefold.federated.LocalModel`. The server compares it; names of its fields are told to
            the server.
        send_plain_sums : bool, default=False
            Let sums of the rows go to the server once, **without noise and not private**, for a joined
            federation: counts, class sums and one matrix of products. A class with one row sends that row.
            It needs a schema, does not go with a mechanism, and all sites must do it. The server cannot turn
            it on.
        recipe : mapping of str to Any, default=None
            How this fit was made, plain values that stay in the folder: by them ``onefold federate site
            update`` fits again. None keeps nothing, and that command then has to be told.
        confirm : callable, default=None
            Called with what the fit will promise (None for raw rows) and the number of rows, before anything
            is drawn, spent or changed. What it raises ends the fit.

        Returns
        -------
        Site
            This object.
        """
        schema = Schema.of(schema)
        seen = self.forgotten.marks
        X, y, person = without_forgotten(self.forgotten, X, y, person, schema)
        if send_plain_sums:
            if schema.plain:
                raise InvalidInputError(NEEDS_SCHEMA)
            if estimator is None:
                estimator = default_classifier(schema).set_params(measure="euclidean")
        model = LocalModel(
            estimator,
            mechanism,
            fabricate=fabricate,
            label_mechanism=label_mechanism,
            keep_rows=send_plain_sums,
            schema=schema,
        )
        promise = model.promise(schema.width_of(X))
        if send_plain_sums and not (label_mechanism is None and promise is None):
            raise InvalidInputError(NO_NOISE)

        def make(ledgers: AnyLedger) -> Store:
            model.ledger = ledgers
            model.fit(X, y, person=person)
            names = _columns_of(X, columns, schema)
            return partial(store_model, self.folder, model, names, send_plain_sums=send_plain_sums)

        return self._keep_fit(make, promise, X, seen, Terms(ledger, recipe, confirm))

    def fit_moments(
        self,
        X: Any,
        y: ArrayLike | None,
        moments: PrivateMoments,
        *,
        schema: Schema = AS_THEY_STAND,
        person: Any = None,
        columns: Sequence[str] | None = None,
        ledger: AnyLedger = None,
        recipe: Mapping[str, Any] | None = None,
        confirm: Confirm | None = None,
    ) -> Self:
        """Release private moments of the site's rows once, to be sent to the server; no model is fitted.

        The guarantee is for whole records with their labels, or for persons. The server adds up what the
        sites sent and answers queries from the sum, so this site sees no query. Every call draws new noise
        and spends its epsilon again; it is entered in the folder's ledger as in :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n, p), or table
            Rows of this site; with a schema a table.
        y : array-like of shape (n,) or None
            Class of each row; None takes the label column of the schema.
        moments : PrivateMoments
            The release that all sites agree on, see :func:`onefold.federated.declared.declared_moments`. Its
            own ledger is not used.
        schema : Schema, default=AS_THEY_STAND
            The declared contract of the table, the same at all sites.
        person : array-like of shape (n,), False or None, default=None
            Who each row is about: the release then protects persons. None takes the person column of a
            schema that declares ``rows_per_person``; False takes none.
        columns : sequence of str, default=None
            Names of the features, which the server compares; None takes those of a data frame.
        ledger : Ledger or path, default=None
            Account in which the release is entered before any noise is drawn, besides the folder's own.
        recipe : mapping of str to Any, default=None
            How this release was made, as in :meth:`fit`.
        confirm : callable, default=None
            Called before anything is drawn, spent or changed, as in :meth:`fit`.

        Returns
        -------
        Site
            This object.
        """
        schema = Schema.of(schema)
        seen = self.forgotten.marks
        X, y, person = without_forgotten(self.forgotten, X, y, person, schema)
        if moments.epsilon is None or moments.classes is None:
            raise InvalidInputError("moments of a site need epsilon and the declared classes")
        of_persons = _is_of_persons(person, schema)
        agreed: PrivateMoments = clone(moments)
        if of_persons and agreed.rows_per_person is None:
            agreed.set_params(rows_per_person=schema.rows_per_person)
        promise = agreed.promise(schema.width_of(X), of_persons=of_persons, schema=schema)
        if not promise.holds:
            raise InvalidInputError(f"these moments would promise nothing: {'; '.join(promise.voided_by)}")

        def make(ledgers: AnyLedger) -> Store:
            agreed.set_params(ledger=ledgers)
            released = release_moments(X, y, agreed, person=person, schema=schema)
            return partial(store_moments, self.folder, released, _columns_of(X, columns, schema))

        return self._keep_fit(make, promise, X, seen, Terms(ledger, recipe, confirm))

    def fit_numbers(
        self,
        X: Any,
        agreed: NumberRelease,
        *,
        person: Any = None,
        send_plain_sums: bool = False,
        ledger: AnyLedger = None,
        recipe: Mapping[str, Any] | None = None,
        confirm: Confirm | None = None,
    ) -> Self:
        """Keep the moments of rows with their numbers to predict, to be sent to the server once.

        The server adds up what the sites sent and predicts from the sum, so this site sees no query and keeps
        no model. With noise the release is entered in the folder's ledger as in :meth:`fit`.

        Parameters
        ----------
        X : table
            Rows of this site.
        agreed : NumberRelease
            What all sites agree on: the schema, and epsilon for noise.
        person : array-like of shape (n,), False or None, default=None
            Who each row is about, with noise: the release then protects persons. None takes the person column
            of a schema that declares ``rows_per_person``; False takes none.
        send_plain_sums : bool, default=False
            Let moments **without noise, which are not private**, go to the server. It is needed where
            ``agreed`` has no epsilon, and the server cannot turn it on.
        ledger : Ledger or path, default=None
            Account in which the release is entered before any noise is drawn, besides the folder's own.
        recipe : mapping of str to Any, default=None
            How this release was made, as in :meth:`fit`.
        confirm : callable, default=None
            Called before anything is drawn, spent or changed, as in :meth:`fit`.

        Returns
        -------
        Site
            This object.
        """
        seen = self.forgotten.marks
        X, _, person = without_forgotten(self.forgotten, X, None, person, agreed.schema)
        if send_plain_sums != (agreed.epsilon is None):
            raise InvalidInputError(NO_NOISE if send_plain_sums else NEEDS_CONSENT)
        promise = agreed.promise(of_persons=_is_of_persons(person, agreed.schema))

        def make(ledgers: AnyLedger) -> Store:
            return partial(store_numbers, self.folder, agreed.of(X, person=person, ledger=ledgers), agreed)

        return self._keep_fit(make, promise, X, seen, Terms(ledger, recipe, confirm))

    def _keep_fit(
        self, make: Make, promise: Guarantee | None, X: Any, seen: frozenset[str], terms: Terms
    ) -> Self:
        """Put a fit in the place of the one before: asked about first, then charged, made, and kept.

        ``seen`` are the marks of the forgotten persons whose rows were left out of ``X``.
        """
        unchanged = partial(self._check_list, seen)
        if terms.confirm is not None:
            terms.confirm(promise, count_rows(X))
        unchanged()  # before anything is spent
        recipe = None if terms.recipe is None else {**terms.recipe, "rows": count_rows(X)}
        make(self._ledgers(promise, terms.ledger))(recipe=recipe, check=unchanged)
        return self

    def forget(self, person: Any) -> Self:
        """Leave a person out of every later fit from this folder; what is fitted now stays as it is.

        The id is not kept: the folder holds a mark of it, under a secret of the folder. Call :meth:`fit` or
        :meth:`fit_moments` afterwards for a model without the person. Of raw rows it is, to the last bit, the
        model that a fit without the person's rows gives on the same machine. What was released with noise
        before cannot be taken back, and a new release spends its epsilon.

        Parameters
        ----------
        person : str or int
            The person, as the person column of the table names them.

        Returns
        -------
        Site
            This object.
        """
        self.folder.prepare()
        self.forgotten.add(person)
        return self

    @property
    def recipe(self) -> dict[str, Any]:
        """How the fit of the model was made, as it was told; empty if it was not."""
        return recipe_of(self.folder)

    def _check_list(self, seen: frozenset[str]) -> None:
        """Refuse what was made of rows that another list of forgotten persons has let through."""
        if self.forgotten.marks != seen:
            raise FederationError(
                "the list of forgotten persons has changed since the rows were read, so nothing was kept: "
                "run it again"
            )

    def _ledgers(self, promise: Guarantee | None, ledger: AnyLedger) -> AnyLedger:
        """Return where a fit is entered: the given ledger and the folder's own."""
        if promise is None or (ledger is None and not promise.holds):
            return ledger  # there is nothing to count
        own, earlier = self.folder.ledger, promised(self.folder)  # before the ledgers are read
        begin_ledger(self.folder, promise)
        found = Ledger.load(own)
        if earlier is not None:
            check_counts(all_of(ledger, own), earlier)
        if ledger is None and found.events:
            raise InvalidInputError(
                f"this site has spent {found.spent}, and another fit "
                f"with noise spends again: serve the model fitted last, or name a ledger (--ledger {own})"
            )
        return all_of(ledger, own)

    def store(
        self, model: LocalModel, columns: Sequence[str] | None = None, *, send_plain_sums: bool = False
    ) -> Self:
        """Keep a fitted model in the folder, to answer with it.

        The folder's ledger does not count what fitting it has spent; :meth:`fit` does.

        Parameters
        ----------
        model : LocalModel
            A fitted model.
        columns : sequence of str, default=None
            Names of the features, which the server compares.
        send_plain_sums : bool, default=False
            Let sums of the model's rows go to the server without noise, as in :meth:`fit`. The model must
            have its rows.

        Returns
        -------
        Site
            This object.
        """
        store_model(self.folder, model, columns, send_plain_sums=send_plain_sums)
        return self

    def configure(
        self,
        *,
        per_minute: int | None = None,
        total: int | None = None,
        querier_total: int | None = None,
        sends: str | None = None,
        trust_keys: Iterable[str] = (),
        withdraw_plain_sums: bool = False,
        approval: str | None = None,
        declared_rows: int | None = None,
        tells_epsilon: bool | None = None,
        sum_table: PathLike | None = None,
        sum_key: PathLike | None = None,
        sum_encoders: Mapping[str, PathLike] | None = None,
    ) -> Self:
        """Change what may leave this site; kept for the next start.

        Parameters
        ----------
        per_minute : int, default=None
            Rows answered per minute to all queriers together; None keeps what is set.
        total : int, default=None
            Rows answered for ever to all queriers together; None keeps what is set.
        querier_total : int, default=None
            Rows answered for ever to each querier, by its key if it signs; None keeps what is set.
        sends : {"answers", "sealed-answers", "private-model", "raw-model"}, default=None
            What may leave: answers, encrypted answers only, also a model whose guarantee holds, or also a
            model of raw rows. None keeps what is set.
        trust_keys : iterable of str, default=()
            Ids of queriers' keys under which encrypted answers are given; after the first one no other key
            will do.
        withdraw_plain_sums : bool, default=False
            Delete the sums that :meth:`fit` was told to send, so that they are not sent any more. What the
            server has got is there until it removes this site.
        approval : {"anyone", "queriers", "purposes"}, default=None
            Whom the site answers: anyone, queriers that were approved, or each querier for the purposes and
            numbers of rows that were approved (:meth:`approvals`). None keeps what is set.
        declared_rows : int, default=None
            Number of rows to tell the server's operator; it is your declaration, and nothing counts it. None
            keeps what is set, at first to tell none.
        tells_epsilon : bool, default=None
            Whether to tell the server's operator what the site's ledger has spent. None keeps what is set.
        sum_table : str or path-like, default=None
            Table whose rows this site adds to encrypted sums, read when a contract was approved: a file, or
            the address of a table in a database, without a password. None keeps what is set, at first to add
            nothing.
        sum_key : str or path-like, default=None
            File of this site's key for encrypted sums (``onefold federate keys new``): to hold shares, or to
            sign. None keeps what is set.
        sum_encoders : mapping of str to path-like, default=None
            Encoders of columns of ``sum_table``, by the name of the column. None keeps what is set.

        Returns
        -------
        Site
            This object.
        """
        if withdraw_plain_sums:
            withdraw_sums(self.folder)
        limits = {"per_minute": per_minute, "total": total, "caller_total": querier_total}
        told = {"sends": sends, "approval": approval, "declared_rows": declared_rows}
        places = {
            "sum_table": None if sum_table is None else _whole_place(sum_table),
            "sum_key": None if sum_key is None else _whole_path(sum_key),
        }
        encoders = {name: _whole_path(path) for name, path in (sum_encoders or {}).items()}
        given = {**limits, **told, **places, "tells_epsilon": tells_epsilon, "sum_encoders": encoders or None}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        settings = replace(self.settings, **changes)
        trusted = {check_digest(key) for key in trust_keys}
        if trusted:
            lines = sorted(trusted | (self.folder.trusted_key_ids or frozenset()))
            write_whole(self.folder.trusted_keys, "".join(f"{line}\n" for line in lines).encode())
        if settings.plain != self.settings.plain:
            settings.save(self.folder.settings_file)
        return self

    @property
    def only_sums(self) -> bool:
        """Whether the site takes part in encrypted sums and has no model to answer queries with."""
        return self.settings.takes_part_in_sums and find_profile(self.folder) is None

    def _check_ready(self) -> None:
        """Refuse to run without a model, or a part in encrypted sums."""
        if not self.only_sums:
            read_profile(self.folder)

    def approvals(self) -> Approvals:
        """Return what was decided about queriers, to look at it and to decide.

        Returns
        -------
        Approvals
            Its ``entries()`` tell who waits; ``approve`` and ``deny`` decide.
        """
        return approvals_of(self.folder)

    def pause(self, paused: bool = True) -> Self:
        """Answer nobody until this is taken back; what has left cannot be called back.

        It holds at once for a site that runs, in this process or another, and is noted in the site's log.

        Parameters
        ----------
        paused : bool, default=True
            False lets the site answer again.

        Returns
        -------
        Site
            This object.
        """
        if paused == self.is_paused:
            return self
        note_sent(self.folder, SiteEvent.PAUSED if paused else SiteEvent.RESUMED)
        if paused:
            write_whole(self.folder.paused, b"")
        else:
            remove_file(self.folder.paused)
        return self

    def start(self, *, say: Callable[[str], None] = lambda _: None, give_up: float = GIVE_UP_SECONDS) -> Self:
        """Connect and answer queries in the background of this process.

        Parameters
        ----------
        say : callable, default=lambda _: None
            Called with what happens, one line at a time.
        give_up : float, default=300.0
            Seconds after which a site that the server refuses gives up.

        Returns
        -------
        Site
            This object; :meth:`stop`, leaving a ``with`` block or the end of the process stops it.

        Raises
        ------
        FederationError
            If there is no model yet, or this object runs already.
        """
        if self._watch is not None:
            raise FederationError("this object runs the site already")
        self._check_ready()
        node = Node(self.folder, say, give_up)
        self._watch = Watch(node.check, node.stop)
        return self

    def serve(
        self,
        seconds: float | None = None,
        *,
        say: Callable[[str], None] = lambda _: None,
        give_up: float = GIVE_UP_SECONDS,
        keep_going: Callable[[], bool] = lambda: True,
    ) -> None:
        """Connect and answer queries until interrupted.

        Parameters
        ----------
        seconds : float, default=None
            Stop after this time.
        say : callable, default=lambda _: None
            Called with what happens, one line at a time.
        give_up : float, default=300.0
            Seconds after which a site that the server refuses gives up.
        keep_going : callable, default=lambda: True
            Called twice a second; when it returns False the site stops.

        Raises
        ------
        FederationError
            If there is no model yet, or the server keeps the site out.
        """
        self._check_ready()
        with Node(self.folder, say, give_up) as node:
            Watch.until(node.check, seconds, keep_going)

    def __repr__(self) -> str:
        return f"Site({str(self.folder.root)!r})"


def _columns_of(X: Any, columns: Sequence[str] | None, schema: Schema) -> Sequence[str] | None:
    """The names of columns that a schema does not name: as they are given, or those of a data frame."""
    return column_names(X) if columns is None and schema.plain else columns


def _is_of_persons(person: Any, schema: Schema) -> bool:
    """Whether a release protects persons: those that are given, or those whom the schema names."""
    if person is None:
        return schema.person is not None and schema.rows_per_person is not None
    return person is not False


def _whole_path(path: PathLike) -> str:
    """A file's whole path, since every message may be answered by a process elsewhere."""
    text = os.fspath(path)
    if not Path(text).exists():
        raise InvalidInputError(f"{text}: no such file")
    return str(Path(text).resolve())


def _whole_place(path: PathLike) -> str:
    """Where a table is, as it can be kept: a whole path, or an address of a database without a password."""
    text = str(os.fspath(path))
    if not is_address(text):
        return _whole_path(text)
    url, asked = split_address(text)
    asked = _whole_path(asked) if asked.endswith(".sql") else asked
    if url.drivername != "sqlite":
        return f"{text.partition('#')[0]}#{asked}"
    return f"sqlite:///{_whole_path(url.database or '')}#{asked}"
