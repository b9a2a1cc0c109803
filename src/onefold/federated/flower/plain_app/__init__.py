"""A plain Flower app for people who run a SuperLink of their own: ``onefold federate app DIR`` writes it.

Its two modules use Flower's documented interface and onefold's core (local model, messages, guard, rules)
and nothing of onefold's own launcher, so they have none of its protection: see ``docs/flower_app.md``.
"""

from pathlib import Path

from onefold._base.files import write_whole
from onefold.exceptions import InvalidInputError

__all__ = ["write_plain_app"]

PACKAGE = "onefold_app"
# Copied as they stand here, and where to.
FILES = {"pyproject.toml": ".", "README.md": ".", "client_app.py": PACKAGE, "server_app.py": PACKAGE}


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
    (root / PACKAGE).mkdir(parents=True)
    write_whole(root / PACKAGE / "__init__.py", b'"""A plain Flower app of onefold."""\n', public=True)
    for name, where in FILES.items():
        write_whole(root / where / name, (Path(__file__).parent / name).read_bytes(), public=True)
    return root
