"""Files with rows, keys or accounts are closed from their first byte on; readable keys are refused."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.tiers import later

from onefold import io
from onefold._base.files import make_folder
from onefold.cli.app import main
from onefold.cli.outputs import write_private_table
from onefold.exceptions import InvalidInputError
from onefold.fabrication import TableSynthesizer
from onefold.federated import HolderKey, LocalModel, SchemaSum, SumHolder
from onefold.federated.access.log import SiteEvent, SiteLog
from onefold.federated.access.signatures import SigningKey
from onefold.models import FoldingClassifier
from onefold.tables import Field, Schema, read_table, write_table

pytest.importorskip("cryptography")

SOURCE = Path(__file__).resolve().parents[2] / "src" / "onefold"
FILES = SOURCE / "_base" / "files.py"
FIELDS = [
    Field("age", low=0, high=100),
    Field("ward", "string", levels=("a", "b")),
    Field("ill", "string", role="label", levels=("no", "yes")),
]
# What is made to be handed out: everything else that is written is for the user's account alone.
PUBLIC = (
    ".public",
    ".pub",
    ".crt",
    ".guarantee.json",
    ".quality.json",
    ".contract",
    ".sum",
    ".signed",
    ".answer",
    "GUIDE.md",
    "holders.json",
    "report.html",
    "report.json",
    "schema.json",
    "synthetic.csv",
    "noisy.csv",
)


@pytest.fixture(params=later([0o022, 0o000], [0o000]), ids=["umask022", "umask000"])
def umask(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def do(*arguments: object) -> None:
    assert main([str(each) for each in arguments]) == 0


def write_rows(path: str, n: int = 60) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n)
    ill = np.where(age > 50, "yes", "no")
    write_table(path, {"age": age, "ward": rng.choice(["a", "b"], n), "ill": ill})


def check_modes(folder: Path, umask: int) -> set[str]:
    """The names of all files below a folder; none may be open that is not made to be."""
    names = set()
    for path in folder.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            continue
        is_public = name.endswith(PUBLIC) and "/sites/" not in name.removesuffix(".crt")
        assert mode == (0o666 & ~umask if is_public else 0o600), f"{name} {mode:o}"
        names.add(path.name)
    return names


def test_session_of_commands_leaves_nothing_open_that_holds_rows(umask: int, tmp_path: Path) -> None:
    write_rows("rows.csv")
    Schema(FIELDS, rows_about=60).save("schema.json")
    do("fit", "rows.csv", "--label", "ill", "--out", "model.onefold", "--report", "report.html")
    do("predict", "model.onefold", "rows.csv", "--out", "predicted.csv")
    do("ledger", "new", "ledger.db")
    private = ("--epsilon", "5", "--ledger", "ledger.db")
    do("fit", "rows.csv", "--schema", "schema.json", "--out", "private.onefold", *private)
    do("synthesize", "rows.csv", "--schema", "schema.json", "--out", "synthetic.csv", *private)
    do("schema", "infer", "rows.csv", "--out", "guessed.json")
    do("transfer", "source", "rows.csv", "--schema", "schema.json", "--out", "source.onefold", "--epsilon", 5)
    do("release", "rows.csv", "--schema", "schema.json", "--out", "noisy.csv", "--epsilon", 5)
    do("federate", "querier", "new", "ward")
    names = check_modes(tmp_path, umask)
    assert {"model.onefold", "predicted.csv", "ledger.db", "ward.signkey", "rows.csv"} <= names
    assert {"synthetic.csv", "synthetic.csv.guarantee.json", "ward.pub", "report.html"} <= names


def test_encrypted_sum_leaves_keys_and_kept_messages_closed(umask: int, tmp_path: Path) -> None:
    Schema(FIELDS, rows_about=60).save("schema.json")
    write_rows("rows.csv")
    for name in ("ann", "bob"):
        do("federate", "keys", "new", name, "--folder", "holders")
    public = [f"holders/{name}.public" for name in ("ann", "bob")]
    made = ("--schema", "schema.json", "--holders", *public, "--threshold", 2, "--epsilon", 2)
    do("federate", "sum", "new", "spring", "--sites", "north", "south", *made)
    summed = SchemaSum.load("spring.contract")
    table = read_table("rows.csv", schema=summed.schema)
    for name in ("north", "south", "ann", "bob"):
        make_folder(name)
    messages = [summed.total.contribute(site, summed.vector(table), site) for site in ("north", "south")]
    keys = [HolderKey.load(f"holders/{name}.key") for name in ("ann", "bob")]
    summed.total.together(messages, [SumHolder(summed.total, key, key.name) for key in keys])
    kept = [path for site in ("north", "south", "ann", "bob") for path in (tmp_path / site).iterdir()]
    assert {"spring.north.sum", "spring.ann.round", "known_keys"} <= {path.name for path in kept}
    for path in kept:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        path.unlink()
    assert {"ann.key", "ann.public", "spring.contract"} <= check_modes(tmp_path, umask)


def test_library_writes_models_counts_and_logs_closed(umask: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), np.repeat([0, 1], 20)
    io.save(FoldingClassifier(n_components=2).fit(X, y), tmp_path / "folding.onefold")
    LocalModel().fit(X, y).save(tmp_path / "local.onefold")
    schema = Schema(FIELDS, rows_about=60)
    table = {
        "age": rng.integers(0, 100, 60),
        "ward": np.repeat(["a", "b"], 30),
        "ill": np.tile(["no", "yes"], 30),
    }
    maker = TableSynthesizer(schema, 5.0).fit(table)
    io.save(maker, tmp_path / "maker.onefold")
    SiteLog(tmp_path / "site.db").append(SiteEvent.PAUSED, "north")
    assert len(check_modes(tmp_path, umask)) >= 4


def test_site_and_server_folders_are_closed(umask: int, tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    do("federate", "init", "federation", "--sites", "north", "south")
    write_rows("rows.csv")
    Schema(FIELDS, rows_about=60).save("schema.json")
    given = ("--schema", "schema.json", "--fit-only")
    do("federate", "site", "rows.csv", "--folder", "federation/sites/north", *given)
    do("federate", "site", "rows.csv", "--folder", "federation/sites/south", *given, "--epsilon", 5)
    do("federate", "log", "export", "--folder", "federation/sites/north", "--json", "log.json")
    assert stat.S_IMODE(Path("log.json").stat().st_mode) == 0o600
    assert list(Path("federation/sites/north/state").glob("*.onefold"))
    assert Path("federation/sites/south/ledger.db").is_file()
    for folder in ("server", "sites/north"):
        assert stat.S_IMODE((tmp_path / "federation" / folder).stat().st_mode) == 0o700
    for path in (tmp_path / "federation").rglob("*"):
        is_public = path.is_dir() or path.suffix in (".crt", ".pub", ".md")
        assert is_public or stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


# --- one door -----------------------------------------------------------------------------------------------

MAKERS = {"write_text", "write_bytes", "touch", "mkdir", "makedirs", "mkstemp", "copy", "copyfile", "savefig"}
# The folder of the project that a Flower user gets; the null device; a sign of life over the old one, in
# place; pictures in memory, and in a file that was opened before.
ALLOWED = {
    ("federated/flower/plain_app/__init__.py", "mkdir"),
    ("cli/app.py", "open"),
    ("federated/flower/life.py", "open"),
    ("report/displays.py", "savefig"),
}


def opened_to_write(call: ast.Call) -> bool:
    """Whether a call of ``open`` may make a file."""
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    of_os = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "os"
    return of_os or any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)


def makers(path: Path) -> Iterator[str]:
    """Calls of a file that make files or folders without going through ``_base/files.py``."""
    text = path.read_text(encoding="utf-8")
    if not any(name in text for name in (*MAKERS, "open")):  # parsing all files takes seconds
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(getattr(node.func, "value", None), "id", "")
        opens = name == "open" and owner not in ("archive", "Image", "webbrowser") and opened_to_write(node)
        if opens or (name in MAKERS and (name != "copy" or owner == "shutil")):
            yield name


def test_all_files_are_made_by_one_module() -> None:
    found = [
        (path.relative_to(SOURCE).as_posix(), name)
        for path in sorted(SOURCE.rglob("*.py"))
        if path != FILES
        for name in makers(path)
    ]
    others = [each for each in found if each not in ALLOWED]
    assert others == []


def public_writers() -> set[tuple[str, str]]:
    """Functions that make files for others, by file and name."""
    return {
        (path.relative_to(SOURCE).as_posix(), node.name)
        for path in SOURCE.rglob("*.py")
        if path != FILES and "public=" in path.read_text(encoding="utf-8")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and any(word.arg == "public" for word in call.keywords)
    }


def test_what_is_made_for_others_is_listed() -> None:
    assert public_writers() == {
        ("_base/records.py", "save"),  # if it is told so
        ("cli/federate/sums.py", "_second"),  # contracts
        ("cli/federate/sums.py", "run_new"),
        ("cli/federate/sums.py", "run_new_key"),  # the public part of a key
        ("cli/outputs.py", "write_beside"),
        ("cli/outputs.py", "write_private_table"),  # if the guarantee holds
        ("federated/flower/encrypted.py", "make_query_key"),  # without its secret
        ("federated/flower/federation.py", "collect"),  # encrypted answers
        ("federated/flower/plain_app/__init__.py", "write_plain_app"),
        ("federated/flower/setup.py", "_sign"),  # certificates
        ("federated/flower/setup.py", "create_federation"),  # the guide
        ("federated/flower/setup.py", "make_node_key"),
        ("federated/flower/setup.py", "make_site_folder"),
        ("federated/flower/sum_rounds.py", "_fix_list"),
        ("federated/flower/sum_rounds.py", "_gather"),
        ("federated/access/signatures.py", "create"),
        ("report/displays.py", "write_figure"),
        ("report/html.py", "write_page"),
        ("report/html.py", "write_report"),
        ("tables/schema.py", "save"),
        ("tables/writing.py", "write_table"),  # if it is told so
    }


def test_schema_with_guesses_from_rows_is_closed_until_they_are_confirmed(umask: int, tmp_path: Path) -> None:
    write_rows("rows.csv")
    guessed = Schema.infer(read_table("rows.csv"), label="ill")
    Schema(FIELDS).save("declared.json")
    guessed.save("guessed.json")
    guessed.confirm(ground="a public sample", by="anna").save("confirmed.json")
    modes = {path.stem: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.json")}
    assert modes == {"declared": 0o666 & ~umask, "guessed": 0o600, "confirmed": 0o666 & ~umask}


@pytest.mark.parametrize(("holds", "mode"), [(True, 0o666), (False, 0o600)])
def test_table_whose_guarantee_is_void_is_closed(holds: bool, mode: int, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = str(tmp_path / "table.csv")
        write_private_table(path, {"age": np.arange(3)}, {"holds": holds})
        assert stat.S_IMODE(Path(path).stat().st_mode) == mode
    finally:
        os.umask(before)


def test_a_file_made_elsewhere_would_be_found(tmp_path: Path) -> None:
    writes = "p.write_text('a')\nopen(p, 'w')\np.open('ab')\nos.open(p, 1)\nshutil.copy(p, q)\np.mkdir()\n"
    text = f"{writes}open(p, 'rb')\nopen(p)\ncopy(p)\n"
    (tmp_path / "a.py").write_text(text)
    assert sorted(makers(tmp_path / "a.py")) == ["copy", "mkdir", "open", "open", "open", "write_text"]


# --- secrets ------------------------------------------------------------------------------------------------

# Every reader of a secret, by file and function, with what makes such a file and reads it in the test below.
READERS = {
    ("_base/records.py", "load"),  # HolderKey, SigningKey, and the secret key of a Querier
    ("federated/flower/folders.py", "require_files"),
    ("federated/flower/processes.py", "make_environment"),
    ("federated/flower/setup.py", "_private_key"),
}
PARSERS = {"load_pem_private_key", "load_ssh_private_key", "load_der_private_key"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    text = path.read_text(encoding="utf-8")
    if "secret=" not in text and not any(name in text for name in PARSERS):
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef):
            yield node


def reads_secret(node: ast.AST) -> bool:
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    return any(
        getattr(call.func, "id", "") == "read_saved" and any(word.arg == "secret" for word in call.keywords)
        for call in calls
    )


def test_every_reader_of_secrets_is_known_and_refuses_files_that_others_can_read() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), node.name)
        for path in SOURCE.rglob("*.py")
        for node in functions(path)
        if reads_secret(node)
    }
    assert found == READERS  # a new one gets a case below


def test_no_private_key_is_parsed_from_a_file_that_was_opened_elsewhere() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in functions(path):
            names = {getattr(each, "attr", "") for each in ast.walk(node)}
            if names & PARSERS:
                assert "read_bytes" not in names, f"{path.name}: {node.name}"
                assert any(reads_secret(other) for other in functions(path)), path.name


def holder(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "ann.key"
    HolderKey.new("ann").save(path)
    return path, lambda: HolderKey.load(path)


def signer(folder: Path) -> tuple[Path, Callable[[], object]]:
    SigningKey.create("ward", folder)
    path = folder / "ward.signkey"
    return path, lambda: SigningKey.load(path)


def querier(folder: Path) -> tuple[Path, Callable[[], object]]:
    pytest.importorskip("seal")
    from onefold.federated.fhe import Querier

    path = folder / "2-2-8.fhekey"
    Querier(2, 2).save(path)
    return path, lambda: Querier.load(path)


def authority(folder: Path) -> tuple[Path, Callable[[], object]]:
    from onefold.federated.flower.setup import issue_server_certificate, make_authority

    made = [folder / name for name in ("server.crt", "server.key", "ca.crt", "ca.key")]
    make_authority(made[2], made[3], "trial")
    return made[3], lambda: issue_server_certificate(*made, ["localhost"])


def node_key(folder: Path) -> tuple[Path, Callable[[], object]]:
    from onefold.federated.flower.folders import ServerFolder, ServerSettings
    from onefold.federated.flower.setup import create_federation

    create_federation(folder, ["north"], ServerSettings("localhost", 9092))
    server = ServerFolder(folder / "server")
    return server.key, lambda: server.require_files({server.ca: ""})


def process_secret(folder: Path) -> tuple[Path, Callable[[], object]]:
    pytest.importorskip("flwr")
    from onefold.federated.flower.folders import SiteFolder, SiteSettings
    from onefold.federated.flower.processes import make_environment

    site = SiteFolder(folder)
    SiteSettings("north", "127.0.0.1", 9092, insecure=True).save(site.settings_file)
    make_environment(site)
    return site.secret, lambda: make_environment(site)


@pytest.mark.parametrize("make", [holder, signer, querier, authority, node_key, process_secret])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_secret_that_others_can_read_is_refused_in_one_line(
    make: Callable[[Path], tuple[Path, Callable[[], object]]], mode: int, tmp_path: Path
) -> None:
    path, load = make(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    load()
    path.chmod(mode)
    with pytest.raises(InvalidInputError) as refused:
        load()
    assert str(refused.value) == f"{path}: others can read this key: run chmod 600 {path}"
    path.chmod(0o600)
    load()
