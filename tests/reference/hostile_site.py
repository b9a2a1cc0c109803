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


def opened(records):
    """Bytes of the first message in Flower's records, its kind, its fields and its arrays."""
    from onefold._base.records import kind_of, unpack
    from onefold.federated.messages import Bundle

    (array,) = records["messages"].values()
    message = Bundle.from_bytes(array.numpy().tobytes()).parts[0]
    kind = kind_of(message)
    text, arrays = unpack(message, kind, 1)
    return message, kind, json.loads(text), arrays


def closed(*messages):
    """Flower's records of some bytes that should be messages."""
    import numpy as np
    from flwr.app import Array, ArrayRecord, RecordDict

    from onefold.federated.messages import Bundle

    bundle = np.frombuffer(Bundle(messages).to_bytes(), dtype=np.uint8)
    return RecordDict({"messages": ArrayRecord({"bundle": Array(bundle)})})


def changed(records, fields=None, arrays=None):
    """The same message with other fields and arrays, and a right checksum."""
    from onefold._base.records import pack

    _, kind, own, known = opened(records)
    found = known if arrays is None else {name: arrays(array) for name, array in known.items()}
    return closed(pack(kind, 1, own | (fields or {}), found))


def larger(records, n_rows):
    """Well-formed answers about more rows than were asked about."""
    import numpy as np

    return changed(records, arrays=lambda array: np.ones((n_rows, *array.shape[1:]), array.dtype))


def stale(records, kind):
    """The answers of the first query, again and again."""
    kept = HERE / "first"
    if not kept.exists():
        kept.write_bytes(opened(records)[0])
    return closed(kept.read_bytes())


def deep(records, kind):
    """A message in whose header lists are in lists."""
    message = opened(records)[0]
    length = int.from_bytes(message[:8], "little")
    header = json.loads(message[8 : 8 + length])
    nested = "[" * 100_000 + "]" * 100_000
    header["__metadata__"]["onefold"] = f'{"0" * 64}{{"kind": "answers", "version": 1, "fields": {nested}}}'
    text = json.dumps(header).encode()
    return closed(len(text).to_bytes(8, "little") + text + message[8 + length :])


def plain(records, kind):
    """Answers in clear where encrypted ones were asked for."""
    import numpy as np

    from onefold.federated.messages import Answers

    fields = opened(records)[2]
    values = np.full((150, 2), 0.01)
    return closed(Answers(fields["query_id"], fields["site"], (0, 1), "max", 1.0, values).to_bytes())


LIES = {
    "nan": lambda r, k: changed(r, arrays=lambda a: a * float("nan")),
    "minus infinite": lambda r, k: changed(r, arrays=lambda a: a - float("inf")),
    "negative": lambda r, k: changed(r, arrays=lambda a: a - 1e6),
    "fewer rows": lambda r, k: changed(r, arrays=lambda a: a[:-1]),
    "fewer classes": lambda r, k: changed(r, arrays=lambda a: a[:, :-1]),
    "truth values": lambda r, k: changed(r, arrays=lambda a: a > 0),
    "more rows": lambda r, k: larger(r, 200),
    "huge": lambda r, k: larger(r, 200_000),
    "another name": lambda r, k: changed(r, {"site": "north"}),
    "another query": lambda r, k: changed(r, {"query_id": "ab" * 16}),
    "other classes": lambda r, k: changed(r, {"classes": ["x", "y"]}),
    "stale": stale,
    "deep": deep,
    "junk": lambda r, k: closed(b"junk"),
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
