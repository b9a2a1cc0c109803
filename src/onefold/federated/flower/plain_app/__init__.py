"""A plain Flower app for people who run a SuperLink of their own: ``onefold federate app DIR`` writes it.

``client_app.py`` and ``server_app.py`` are copied as they stand here. They use Flower's documented interface
and onefold's core (local model, messages, guard, rules), and nothing of onefold's own launcher, so they have
none of its protection: ``docs/flower_app.md`` says what that means.
"""

from pathlib import Path

from onefold._base.files import write_whole
from onefold.exceptions import InvalidInputError

__all__ = ["write_plain_app"]

PACKAGE = "onefold_app"
MODULES = ("client_app.py", "server_app.py")

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "onefold-app"
version = "1.0.0"
description = "One round: every site answers with one number per row and class, the server combines them."
license = "Apache-2.0"
dependencies = ["onefold[federated]"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "you"

[tool.flwr.app.components]
serverapp = "onefold_app.server_app:app"
clientapp = "onefold_app.client_app:app"

[tool.flwr.app.config]
queries = "/absolute/path/new.npz"         # array X (n, p): rows to predict, at the server
out = "/absolute/path/predictions.npz"     # written at the server
rule = "min"                               # min, trimmed, checked
n-liars = 1                                # lying sites that trimmed and checked withstand
min-sites = 1                              # wait for so many sites
timeout = 60.0                             # seconds the sites have
"""

README = """\
# A plain Flower app of onefold

One round, no strategy. The ServerApp sends rows to the sites, each ClientApp answers with one number per row
and class, and the ServerApp combines them. This runs on a SuperLink of your own. **It is not the protected
way to run onefold**: `docs/flower_app.md` says what `onefold federate` protects that plain Flower does not.

Every machine needs `pip install 'onefold[federated]'`.

1. At each site, fit a model once:

       import numpy as np
       from onefold.federated import LocalModel
       rows = np.load("rows.npz")
       LocalModel().fit(rows["X"], rows["y"]).save("/srv/site/model.onefold", with_rows=False)

   Without a mechanism, such as `LocalModel(mechanism=OptimalNoise(1.0, sensitivity=Box(0, 1)))`, the model
   and its answers are functions of raw rows.

2. Start the SuperNode with the site's name and model. Counters of answered rows are kept beside the model:

       flower-supernode ... --node-config 'site="north" model="/srv/site/model.onefold" total=100000'

3. Set `queries` and `out` in `pyproject.toml` and start the run:

       flwr run . your-superlink --stream
"""


def write_plain_app(folder: str | Path) -> Path:
    """Write a plain Flower app into a new or empty folder.

    Parameters
    ----------
    folder : str or Path
        Folder to make.

    Returns
    -------
    Path
        The folder, with ``pyproject.toml``, ``README.md`` and the package ``onefold_app``.

    Raises
    ------
    InvalidInputError
        If there is something in the folder already.

    See Also
    --------
    Federation : A federation with onefold's own launcher, which protects more.

    Examples
    --------
    >>> import tempfile
    >>> from onefold.federated.flower import write_plain_app
    >>> with tempfile.TemporaryDirectory() as home:
    ...     sorted(path.name for path in write_plain_app(home + "/app").iterdir())
    ['README.md', 'onefold_app', 'pyproject.toml']
    """
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InvalidInputError(f"{root}: there is something already; name a new folder")
    package = root / PACKAGE
    package.mkdir(parents=True)
    write_whole(root / "pyproject.toml", PROJECT.encode(), public=True)
    write_whole(root / "README.md", README.encode(), public=True)
    write_whole(package / "__init__.py", b'"""A plain Flower app of onefold."""\n', public=True)
    for name in MODULES:
        write_whole(package / name, (Path(__file__).parent / name).read_bytes(), public=True)
    return root
