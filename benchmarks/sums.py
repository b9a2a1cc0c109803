"""Encrypted sums: processor time and bytes of every role beside plain sums, and the accuracy of shared noise.

A plain site draws the same noise and packs the numbers into a frame; a plain server adds them. Work of a
site does not depend on the other sites except for the size of its noise, so one site is measured; holders
and querier are measured with all sites, as long as their messages fit into memory (2.4 GB at 10^6 numbers
and 100 sites do not).

One secret key and a server that adds ciphertexts (BFV of SEAL) trust two participants not to collude. So do
shares of two holders, one of which may be the server itself. Both are measured, BFV with a modulus of 40 bits
(4096 coefficients) and of 60 bits (8192), which sums of moments need.
"""

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.data import QUICK, Sizes
from benchmarks.timing import Row, best
from onefold import datasets
from onefold._base.frames import pack_frame, unpack_frame
from onefold.encoders import GradientHistograms
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier
from onefold.federated import (
    EncryptedSum,
    HolderKey,
    MomentFederation,
    MomentSum,
    SumBlock,
    SumContract,
    SumHolder,
    SumParties,
)
from onefold.federated.sums.noise import draw_shares
from onefold.privacy import Guarantee, PrivateMoments
from onefold.privacy.calibration import mu_of

N_HOLDERS, THRESHOLD = 5, 3
MOST_NUMBERS = 10**7  # of all sites together, that holders are measured with
EPSILONS = (1.0, 2.0, 4.0, 8.0)
N_TRAIN, N_SITES = 1400, 10


def rows(sizes: Sizes) -> list[Row]:
    """Costs for two lengths and two numbers of sites, then accuracies."""
    lengths, sites = ((10**4,), (3,)) if sizes is QUICK else ((10**5, 10**6), (10, 100))
    costs = [row for length in lengths for n_sites in sites for row in cost(length, n_sites)]
    costs += [row for length in lengths for row in two_parties(length)]
    digits = accuracies(EPSILONS[:1] if sizes is QUICK else EPSILONS, 1 if sizes is QUICK else 10)
    return [*costs, *digits, *mnist(sizes)]


def _cpu(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return function(), time.process_time() - start


def agreed(keys: list[HolderKey], length: int, n_sites: int, threshold: int = THRESHOLD) -> SumContract:
    """A contract about whole numbers up to 2**30, epsilon 1 per record."""
    mu = mu_of(1.0, 1e-5)
    pair = (1.0, 1e-5)
    promise = Guarantee("record", pair, pair, 1, neighbours="add-remove", clipped=True, mu=mu)
    block = SumBlock("numbers", length, 2**30, 2**20 / mu * 1.000002, 2.0**20)
    names = tuple(f"site{i}" for i in range(n_sites))
    return SumContract("round", tuple(key.public for key in keys), threshold, names, (block,), promise)


def cost(length: int, n_sites: int) -> list[Row]:
    """One site against a plain one; holders and querier with all sites where that fits."""
    keys = [HolderKey.new(f"holder{i}") for i in range(N_HOLDERS)]
    contract = agreed(keys, length, n_sites)
    total = EncryptedSum(contract)
    vector = np.random.default_rng(0).integers(-(2**30), 2**30, length)

    def contribute(site: str = "site0", folder: str | None = None) -> bytes:
        return total.contribute(site, vector, folder or tempfile.mkdtemp(dir=work))

    def plain() -> bytes:
        noise = draw_shares(contract.blocks, contract.least_adding)
        return pack_frame({}, {"vector": vector + noise})

    with tempfile.TemporaryDirectory() as work:
        own, alone = best(contribute, 3, time.process_time), best(plain, 3, time.process_time)
        size, plain_size = len(contribute()), len(plain())
        title = f"{length} numbers, {n_sites} sites"
        details: dict[str, Any] = {"site seconds": own, "plain site seconds": alone, "bytes": size}
        details |= {"bytes per number": size / length, "plain bytes": plain_size}
        found = [
            Row(f"{title}: site's processor time / plain", own / alone, None, details),
            Row(f"{title}: site's bytes / plain", size / plain_size, None, details),
        ]
        if length * n_sites <= MOST_NUMBERS:
            found.append(_others(total, keys, contribute, plain(), title, work))
    return found


def _others(
    total: EncryptedSum, keys: list[HolderKey], contribute: Any, frame: bytes, title: str, work: str
) -> Row:
    """Server, holders and querier, against a server that adds plain vectors."""
    messages = [contribute(site, work) for site in total.contract.sites]
    routed, server = _cpu(lambda: total.route(messages))
    holders = [SumHolder(total, key, work) for key in keys]
    seconds: dict[str, list[float]] = {"sign": [], "answer": []}
    signatures, answers = [], []
    for holder in holders:
        signature, spent = _cpu(lambda holder=holder: holder.sign(routed[holder.name]))
        signatures.append(signature)
        seconds["sign"].append(spent)
    for holder in holders:
        answer, spent = _cpu(lambda holder=holder: holder.answer(routed[holder.name], signatures))
        answers.append(answer)
        seconds["answer"].append(spent)
    opened, querier = _cpu(lambda: total.open(answers))

    def plain_server() -> Any:
        return sum(unpack_frame(frame, 2**40)[1]["vector"] for _ in total.contract.sites)

    alone = best(plain_server, 3, time.process_time)
    holder_seconds = max(sign + answer for sign, answer in zip(*seconds.values(), strict=True))
    details = {
        "server seconds": server,
        "busiest holder seconds": holder_seconds,
        "busiest holder bytes": max(sum(map(len, routed[holder.name])) for holder in holders),
        "answer bytes": len(answers[0]),
        "querier seconds": querier,
        "plain server seconds": alone,
        "checked": opened.checked,
    }
    return Row(
        f"{title}: busiest holder's processor time / plain server", holder_seconds / alone, None, details
    )


def two_parties(length: int) -> list[Row]:
    """A site's work where two participants must not collude: two holders, and one key of BFV."""
    keys = [HolderKey.new(name) for name in ("querier", "server")]
    contract = agreed(keys, length, N_SITES, 2)
    total, vector = EncryptedSum(contract), np.random.default_rng(0).integers(-(2**30), 2**30, length)
    with tempfile.TemporaryDirectory() as work:

        def contribute() -> bytes:
            return total.contribute("site0", vector, tempfile.mkdtemp(dir=work))

        seconds, size = best(contribute, 3, time.process_time), len(contribute())
    noise = best(lambda: draw_shares(contract.blocks, contract.least_adding), 3, time.process_time)
    details: dict[str, Any] = {"site seconds": seconds, "bytes": size, "bytes per number": size / length}
    found = [Row(f"{length} numbers, two holders: site's bytes / plain", size / (8 * length), None, details)]
    for degree, bits in ((4096, 40), (8192, 60)):
        measured = one_key(vector, degree, bits)
        if measured:
            measured["site seconds"] += noise
            name = f"{length} numbers, BFV with {degree} coefficients"
            found += [
                Row(f"{name}: site's {what} / two holders", measured[key] / details[key], None, measured)
                for what, key in (("processor time", "site seconds"), ("bytes", "bytes"))
            ]
    return found


def one_key(vector: Any, degree: int, bits: int) -> dict[str, Any]:
    """Encrypting a vector under one public key of BFV, without noise; nothing where SEAL is missing."""
    try:
        import seal
    except ImportError:
        return {}
    settings = seal.EncryptionParameters(seal.scheme_type.bfv)
    settings.set_poly_modulus_degree(degree)
    settings.set_coeff_modulus(seal.CoeffModulus.BFVDefault(degree))
    settings.set_plain_modulus(seal.PlainModulus.Batching(degree, bits))
    context = seal.SEALContext(settings, True, seal.sec_level_type.tc128)
    generator, encoder = seal.KeyGenerator(context), seal.BatchEncoder(context)
    encryptor = seal.Encryptor(context, generator.create_public_key())
    modulus = int(settings.plain_modulus().value())
    padded = np.zeros(-(-len(vector) // degree) * degree, dtype=np.int64)
    padded[: len(vector)] = vector % modulus
    parts = padded.astype(np.uint64).reshape(-1, degree)
    seconds = best(lambda: [encryptor.encrypt(encoder.encode(part)) for part in parts], 3, time.process_time)
    size = sum(len(encryptor.encrypt(encoder.encode(part)).to_string()) for part in parts)
    return {"site seconds": seconds, "bytes": size, "bytes per number": size / len(vector)}


# --- accuracy ---------------------------------------------------------------------------------------------


def accuracies(epsilons: tuple[float, ...], repeats: int) -> list[Row]:
    """Bundled digits, ten sites: shared noise, one release of all records, noise of each site's own."""
    X, y = load_digits(return_X_y=True)
    encoder = GradientHistograms(image_shape=(8, 8)).fit(X)
    rows_ = encoder.transform(X)
    found = []
    for epsilon in epsilons:
        scores: dict[str, list[float]] = {}
        for repeat in range(repeats):
            order = np.random.default_rng(repeat).permutation(len(rows_))
            train, test = order[:N_TRAIN], order[N_TRAIN:]
            for name, moments in _released(rows_, y, train, epsilon).items():
                score = MomentClassifier.from_moments(moments).score(rows_[test], y[test])
                scores.setdefault(name, []).append(score)
        mean = {name: float(np.mean(each)) for name, each in scores.items()}
        error = {
            f"{name}, standard error": float(np.std(each) / repeats**0.5) for name, each in scores.items()
        }
        title = f"digits, epsilon {epsilon:g} per record, {N_SITES} sites"
        found.append(Row(f"{title}: accuracy of shared noise", mean["shared"], None, mean | error))
    return found


def _released(X: Any, y: Any, train: Any, epsilon: float) -> dict[str, PrivateMoments]:
    options: dict[str, Any] = {"classes": range(10), "second_moments": "auto"}
    parts = np.array_split(train, N_SITES)
    found = {
        "shared": shared(X, y, parts, PrivateMoments(epsilon, **options), 1),
        "shared, 3 sites may fail": shared(X, y, parts, PrivateMoments(epsilon, **options), 3),
        "one release": PrivateMoments(epsilon, **options).fit(X[train], y[train]),
    }
    for kind in ("class", "pooled"):
        federation = MomentFederation(epsilon=epsilon, classes=range(10), second_moments=kind)
        for place, part in enumerate(parts):
            federation.add(str(place), federation.release(X[part], y[part]))
        found[f"own noise, {kind} moments"] = federation.moments()
    return found


def mnist(sizes: Sizes) -> list[Row]:
    """MNIST with gradient histograms, epsilon 1 per record, ten sites; nothing where the file is missing."""
    if sizes is QUICK:
        return []
    try:
        data = datasets.load("mnist", os.environ.get("ONEFOLD_DATA"), dtype=np.float32)
    except InvalidInputError:
        return []
    encoder = GradientHistograms((28, 28), margin=4).fit(data.X_train[:10])
    X, test = encoder.transform(data.X_train), encoder.transform(data.X_test)
    options: dict[str, Any] = {"classes": np.unique(data.y_train), "second_moments": "class"}
    # Sites that release by themselves need a centre that is known beforehand.
    public = np.full(X.shape[1], 0.7 / X.shape[1] ** 0.5)
    scores: dict[str, list[float]] = {}
    for repeat in range(3):
        parts = np.array_split(np.random.default_rng(repeat).permutation(len(X)), N_SITES)
        own = [PrivateMoments(1.0, centre=public, **options).fit(X[p], data.y_train[p]) for p in parts]
        found = {
            "shared": shared(X, data.y_train, parts, PrivateMoments(1.0, **options), 1),
            "shared, 3 sites may fail": shared(X, data.y_train, parts, PrivateMoments(1.0, **options), 3),
            "one release": PrivateMoments(1.0, **options).fit(X, data.y_train),
            "own noise": PrivateMoments.total(own),
        }
        for name, moments in found.items():
            model = MomentClassifier.from_moments(moments)
            scores.setdefault(name, []).append(float(model.score(test, data.y_test)))
    mean = {name: float(np.mean(each)) for name, each in scores.items()}
    title = f"MNIST, epsilon 1 per record, {N_SITES} sites"
    return [Row(f"{title}: accuracy of shared noise", mean["shared"], None, mean)]


def shared(X: Any, y: Any, parts: Any, moments: PrivateMoments, failing: int) -> PrivateMoments:
    """Both rounds of an encrypted sum of moments."""
    keys = [HolderKey.new(f"holder{i}") for i in range(3)]
    names = tuple(f"site{i}" for i in range(len(parts)))
    parties = SumParties(names, tuple(key.public for key in keys), 2, colluding_sites=failing)
    rounds = MomentSum("round", parties, moments, X.shape[1])

    def opened(total: EncryptedSum, vector: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            messages = [
                total.contribute(name, vector(X[part], y[part]), folder)
                for name, part in zip(names, parts, strict=True)
            ]
            return total.together(messages, [SumHolder(total, key, folder) for key in keys])

    later = rounds.proceed(opened(rounds.first, rounds.first_vector))
    return later.moments(opened(later.second, later.second_vector))
