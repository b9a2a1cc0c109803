"""Folders, keys and certificates: what they hold and who can read them."""

from __future__ import annotations

import json
import socket
import ssl
import stat
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.flower.folders import (
    ServerFolder,
    ServerSettings,
    SiteFolder,
    SiteSettings,
    is_loopback,
)
from onefold.federated.flower.processes import ServerState, clock_ahead, free_port, look_at
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.setup import add_site, create_federation, make_node_key, public_key_text

pytest.importorskip("cryptography")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    create_federation(tmp_path, ["north", "south"], ServerSettings("example.org", 8443))
    return tmp_path


def test_private_files_are_readable_by_their_owner_only(made: Path) -> None:
    private = {"ca.key", "server.key", "node.key", "server.json", "site.json", "state.db"}
    found = {path.name: path for path in made.rglob("*") if path.is_file() and path.name in private}
    assert set(found) == private
    for path in found.values():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    for folder in (made / "server", made / "server/state", made / "sites/north"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_every_site_has_its_own_key_that_the_server_knows(made: Path) -> None:
    sites = Registry(ServerFolder(made / "server")).sites
    keys = {name: public_key_text(SiteFolder(made / "sites" / name).public_key) for name in sites}
    assert {name: site.public_key for name, site in sites.items()} == keys
    assert len(set(keys.values())) == 2
    assert b"PRIVATE" not in (made / "server/state/state.db").read_bytes()
    assert "example.org:8443" in (made / "GUIDE.md").read_text()


def test_sites_may_make_their_own_keys(tmp_path: Path) -> None:
    server = create_federation(tmp_path, ["north"], ServerSettings("example.org", 8443), own_keys=True)
    folder = SiteFolder(tmp_path / "sites/north")
    assert {path.name for path in folder.root.iterdir()} == {"ca.crt", "site.json"}
    assert Registry(server).sites == {}
    make_node_key(folder.key, folder.public_key)
    add_site(server, "north", folder.public_key)
    assert list(Registry(server).sites) == ["north"]
    assert "ssh-keygen" in (tmp_path / "GUIDE.md").read_text()
    plaintext = ServerSettings("127.0.0.1", 8443, insecure=True)
    with pytest.raises(InvalidInputError, match="no keys"):
        create_federation(tmp_path / "other", ["north"], plaintext, own_keys=True)


def handshake(folder: Path, ca: Path, name: str) -> str:
    """A real TLS handshake with the server's certificate: the protocol, or why it failed."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "server.crt", folder / "server.key")
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            serving.wrap_socket(far, server_side=True).close()
        except OSError:
            far.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ssl.create_default_context(cafile=str(ca)).wrap_socket(near, server_hostname=name) as connection:
            return str(connection.version())
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    finally:
        thread.join()


def test_certificate_is_for_the_host_and_this_machine_only(made: Path) -> None:
    server = made / "server"
    for name in ("example.org", "localhost", "127.0.0.1"):
        assert handshake(server, made / "sites/north/ca.crt", name) == "TLSv1.3"
    assert not handshake(server, server / "ca.crt", "example.com").startswith("TLS")


def test_another_authority_is_not_trusted(made: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    create_federation(other, ["x"], ServerSettings("example.org", 8443))
    assert not handshake(made / "server", other / "server/ca.crt", "example.org").startswith("TLS")


def test_second_federation_in_a_folder_is_refused(made: Path) -> None:
    before = (made / "server/ca.key").read_bytes()
    with pytest.raises(InvalidInputError, match="already"):
        create_federation(made, ["x"], ServerSettings("example.org", 8443))
    assert (made / "server/ca.key").read_bytes() == before


@pytest.mark.parametrize("names", [[], ["a", "a"], ["../x"], ["a b"], ["-x"], ["x" * 65]])
def test_bad_site_names_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        create_federation(tmp_path, names, ServerSettings("127.0.0.1", 8443))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["10.0.0.1", "example.org", "0.0.0.0", "::"])
def test_plaintext_on_another_host_is_refused(host: str) -> None:
    with pytest.raises(InvalidInputError, match="plaintext is for tests"):
        ServerSettings(host, 8443, insecure=True)
    with pytest.raises(InvalidInputError, match="plaintext is for tests"):
        SiteSettings("a", host, 8443, insecure=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.9.1"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)
    assert ServerSettings(host, 8443, insecure=True).insecure


@pytest.mark.parametrize(
    "change",
    [{"port": 0}, {"port": 1.5}, {"mode": "other"}, {"rule": "median"}, {"n_liars": -1}, {"host": "a b"}],
)
def test_bad_settings_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "server.json"
    ServerSettings("127.0.0.1", 8443).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidInputError):
        ServerSettings.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', "nonsense", '{"format": 1, "host": "x"}'])
def test_damaged_settings_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.json"
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        ServerSettings.load(path)
    assert "\n" not in str(caught.value)


def test_only_keys_on_nist_curves_are_taken(tmp_path: Path) -> None:
    make_node_key(tmp_path / "key", tmp_path / "key.pub")
    assert public_key_text(tmp_path / "key.pub").startswith("ecdsa-sha2-nistp384 ")
    for text in ("", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1VxZ7mGq0YQ0n3Y0yNqX2cJ9aJ4m8n0J9rJ6y3o2mA"):
        (tmp_path / "other.pub").write_text(text)
        with pytest.raises(InvalidInputError):
            public_key_text(tmp_path / "other.pub")
    with pytest.raises(InvalidInputError):  # the private half, by mistake
        public_key_text(tmp_path / "key")


def test_look_at_distinguishes_no_server_from_another_server(tmp_path: Path) -> None:
    port = free_port()
    assert look_at("127.0.0.1", port, None) is ServerState.ABSENT
    with socket.create_server(("127.0.0.1", port)) as other:

        def babble() -> None:
            connection, _ = other.accept()
            connection.recv(100)
            connection.sendall(b"220 mail server\r\n")
            connection.close()

        thread = threading.Thread(target=babble)
        thread.start()
        assert look_at("127.0.0.1", port, None) is ServerState.OTHER
        thread.join()


@pytest.mark.parametrize("shift", [-3600, 0, 60])
def test_clock_ahead_finds_a_wrong_clock(shift: int) -> None:
    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return formatdate(time.time() - shift, usegmt=True)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    assert clock_ahead("127.0.0.1", server.server_port, None) == pytest.approx(shift, abs=30)
    thread.join()
    server.server_close()
    assert clock_ahead("127.0.0.1", server.server_port, None) == 0
