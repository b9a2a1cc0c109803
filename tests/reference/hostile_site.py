"""What a hostile site sends in the place of its answers, with Flower's real processes.

Put this file as ``sitecustomize.py`` on the path of a site: every Python that the site starts then has these
lies in it. The file ``lie`` beside it names the lie of the moment; while it is empty, the site is honest.
"""

import importlib.abc
import importlib.util
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
MODULE = "onefold.federated.flower.site_app"


def changed(records, kind, headers=None, arrays=None):
    """The same records with other headers and arrays."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    text = records["headers"]["json"] if headers is None else headers
    known = {name: array.numpy() for name, array in records["arrays"].items()}
    found = known if arrays is None else {name: arrays(array) for name, array in known.items()}
    return RecordDict(
        {
            "headers": ConfigRecord({"json": text}),
            "arrays": ArrayRecord({name: Array(array) for name, array in found.items()}),
        }
    )


def told(records, kind, **changes):
    """The same answers under a header in which something else is said."""
    entries = [[header | changes, places] for header, places in json.loads(records["headers"]["json"])]
    return changed(records, kind, json.dumps(entries))


def larger(records, kind, n_rows):
    """Well-formed answers about more rows than were asked about."""
    import numpy as np

    entries = json.loads(records["headers"]["json"])
    header, places = entries[0]
    (name, (stack, _, _)) = next(iter(places.items()))
    text = json.dumps([[header, {name: [stack, 0, n_rows]}]])
    return changed(records, kind, text, lambda array: np.ones((n_rows, *array.shape[1:]), array.dtype))


def stale(records, kind):
    """The answers of the first query, again and again."""
    import numpy as np

    kept = HERE / "first.npz"
    if not kept.exists():
        (array,) = records["arrays"].values()
        np.savez(kept, text=records["headers"]["json"], values=array.numpy())
    with np.load(kept) as first:
        return changed(records, kind, str(first["text"]), lambda array: first["values"])


def plain(records, kind):
    """Answers in clear where encrypted ones were asked for."""
    import numpy as np
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    header = json.loads(records["headers"]["json"])[0][0]
    about = {"version": 1, "kind": "answers", "query_id": header["query_id"], "site": header["site"]}
    about |= {"classes": [0, 1], "measure": "max", "scale": 1.0}
    text = json.dumps([[about, {"values": ["x", 0, 150]}]])
    values = ArrayRecord({"x": Array(np.full((150, 2), 0.01))})
    return RecordDict({"headers": ConfigRecord({"json": text}), "arrays": values})


LIES = {
    "nan": lambda r, k: changed(r, k, arrays=lambda a: a * float("nan")),
    "minus infinite": lambda r, k: changed(r, k, arrays=lambda a: a - float("inf")),
    "negative": lambda r, k: changed(r, k, arrays=lambda a: a - 1e6),
    "fewer rows": lambda r, k: changed(r, k, arrays=lambda a: a[:-1]),
    "fewer classes": lambda r, k: changed(r, k, arrays=lambda a: a[:, :-1]),
    "texts": lambda r, k: changed(r, k, arrays=lambda a: a.astype("U8")),
    "more rows": lambda r, k: larger(r, k, 200),
    "huge": lambda r, k: larger(r, k, 200_000),
    "another name": lambda r, k: told(r, k, site="north"),
    "another query": lambda r, k: told(r, k, query_id="ab" * 16),
    "other classes": lambda r, k: told(r, k, classes=["x", "y"]),
    "stale": stale,
    "deep": lambda r, k: changed(r, k, "[" * 100_000 + "]" * 100_000),
    "junk": lambda r, k: changed(r, k, "junk"),
    "plain": plain,
}


class Liar(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Changes the application of the site when it is imported."""

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        self.real = importlib.util.find_spec(name)
        return importlib.util.spec_from_loader(name, self, origin=self.real.origin)

    def create_module(self, spec):
        return importlib.util.module_from_spec(self.real)

    def exec_module(self, module):
        self.real.loader.exec_module(module)
        honest = module.answer_message

        def answer_message(message, context):
            reply = honest(message, context)
            kind = str(message.metadata.message_type)
            lie = (HERE / "lie").read_text()
            if lie and kind in (module.ANSWERS, module.SEALED):
                reply.content = LIES[lie](reply.content, kind)
                (HERE / "told").write_text(lie)
            return reply

        module.answer_message = answer_message


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, Liar())
