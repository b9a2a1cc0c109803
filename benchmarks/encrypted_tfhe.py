"""``python encrypted_tfhe.py bits``: one encrypted minimum and one equality in TFHE, by Concrete.

These are the operations that the document counts (004, section 3.9): Q C minima and C equalities per query.
The program needs concrete-python and nothing of onefold.
"""

import json
import sys
import time

import numpy as np
from concrete import fhe

OPERATIONS = {"minimum": lambda x, y: np.minimum(x, y), "equality": lambda x, y: x == y}


def measure(bits: int, name: str) -> dict[str, float]:
    """Processor seconds for keys and for one operation, best of three."""
    largest = 2**bits - 1
    rng = np.random.default_rng(0)
    inputs = [(0, 0), (largest, largest), (0, largest), (largest, 0)]
    inputs += [(int(a), int(b)) for a, b in rng.integers(0, largest + 1, (50, 2))]
    circuit = fhe.Compiler(OPERATIONS[name], {"x": "encrypted", "y": "encrypted"}).compile(inputs)
    start = time.process_time()
    circuit.keygen()
    keys = time.process_time() - start
    sent = circuit.encrypt(3, 5)
    times = []
    for _ in range(3):
        start = time.process_time()
        found = circuit.run(sent)
        times.append(time.process_time() - start)
    if int(circuit.decrypt(found)) != int(OPERATIONS[name](3, 5)):
        raise AssertionError("the decrypted result is wrong")
    return {"seconds": min(times), "key_seconds": keys}


if __name__ == "__main__":
    print(json.dumps({name: measure(int(sys.argv[1]), name) for name in OPERATIONS}))
