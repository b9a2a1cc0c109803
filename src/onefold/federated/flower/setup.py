"""A new federation: a folder for the server, one for each site, and a page that says what to do with them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from onefold._base.files import atomic_write
from onefold.exceptions import InvalidInputError
from onefold.federated.flower.certificates import (
    issue_server_certificate,
    make_authority,
    make_node_key,
    public_key_text,
)
from onefold.federated.flower.folders import (
    ServerFolder,
    ServerSettings,
    SiteFolder,
    SiteSettings,
    private_folder,
)
from onefold.federated.flower.registry import Registry
from onefold.federated.messages import check_name

__all__ = ["add_site", "create_federation", "make_site_folder"]

GUIDE = """\
# This federation

Server: `{host}:{port}`, {mode} mode, rule {rule}{plaintext}. Sites: {sites}.

{keys}
2. **Server**, on the machine that the sites reach as `{host}`; port {port} must be open to them:

       onefold federate server --folder server

3. **Each site**, on the machine with its data (no port has to be opened there):

       onefold federate site --folder . --data rows.csv --label COLUMN --epsilon 1 --range 0 1

   It prints what is promised about the rows, and what is not, before anything is answered. Without
   `--epsilon` the answers are functions of raw rows.
4. **Ask**, on the server's machine:

       onefold federate query new.csv --folder server --out predictions.csv
       onefold federate status --folder server

5. **Leave**: `onefold federate remove SITE --folder server`. Every later answer is that of a federation which
   never had the site. What was answered before cannot be taken back.

Columns of `rows.csv` and `new.csv` must be the same, in the same order and units. The certificates are valid
for a year. Keep `server/` and its `ca.key` readable by their owner only. `docs/deploy.md` says what each mode
reveals to whom.
"""


KEYS_MADE = """\
1. **Hand over** each folder in `sites/` to its owner by a safe way, then delete it here: `node.key` is what
   the server knows the site by. For more than a test, let every site make its own key: `onefold federate init
   --own-keys`. For who comes later, `onefold federate add NAME --make DIR --folder server` makes a folder."""
OWN_KEYS = """\
1. **Hand over** each folder in `sites/` to its owner; nothing in it is secret, but it must arrive unchanged.
   In it the site makes its key and sends you the public half, never the private one:

       ssh-keygen -t ecdsa -b 384 -N "" -f node.key

   Ask its owner in person for the key's fingerprint (`ssh-keygen -l -f node.key.pub`), then let it in:

       onefold federate add NAME node.key.pub --folder server

   Who comes later gets a folder by the same command with `--make DIR`."""


def create_federation(
    root: Path, names: Sequence[str], settings: ServerSettings, own_keys: bool = False
) -> ServerFolder:
    """Make all folders, keys and certificates of a federation below ``root``, which must not hold one.

    With ``own_keys`` the sites make their keys themselves, and come in when the server has been told them.
    """
    if own_keys and settings.insecure:
        raise InvalidInputError("in a plaintext federation there are no keys")
    for name in names:
        check_name("a site", name)
    if len(set(names)) != len(names) or not names:
        raise InvalidInputError("name the sites, each once")
    server = ServerFolder(root / "server")
    if server.root.exists() or (root / "sites").exists():
        raise InvalidInputError(f"{root}: there is a federation already")
    private_folder(server.root)
    settings.save(server.settings_file)
    server.prepare()
    if not settings.insecure:
        make_authority(server.ca, server.ca_key, "onefold federation")
        hosts = [settings.host]
        issue_server_certificate(server.certificate, server.key, server.ca, server.ca_key, hosts)
    for name in names:
        site = SiteFolder(root / "sites" / name)
        make_site_folder(server, site, name, with_key=not own_keys)
        if not own_keys:
            add_site(server, name, None if settings.insecure else site.public_key)
    text = GUIDE.format(
        host=settings.host,
        port=settings.port,
        mode=settings.mode,
        rule=settings.rule,
        plaintext=", PLAINTEXT, for tests on this machine only"
        if settings.insecure
        else ", TLS and node keys",
        sites=", ".join(names),
        keys=OWN_KEYS if own_keys else KEYS_MADE,
    )
    with atomic_write(root / "GUIDE.md") as file:
        file.write(text.encode())
    return server


def make_site_folder(server: ServerFolder, site: SiteFolder, name: str, with_key: bool) -> None:
    """Write what a site needs to find its server and to recognise it, and a key if it makes none itself."""
    check_name("a site", name)
    settings = server.settings
    if site.root.exists() and any(site.root.iterdir()):
        raise InvalidInputError(f"{site.root}: there is something in this folder already")
    private_folder(site.root)
    SiteSettings(name, settings.host, settings.port, settings.insecure).save(site.settings_file)
    if settings.insecure:
        return
    shutil.copy(server.ca, site.ca)
    if with_key:
        make_node_key(site.key, site.public_key)


def add_site(server: ServerFolder, name: str, public_key: Path | None) -> None:
    """Let a site in by its public key; in a plaintext federation by its name."""
    if server.settings.insecure != (public_key is None):
        raise InvalidInputError("a site is let in by its public key, except in a plaintext federation")
    Registry(server).invite(name, "" if public_key is None else public_key_text(public_key))
