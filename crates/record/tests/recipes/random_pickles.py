"""Writes random plain data as pickles of every protocol, one JSON object a line, with what Python says they hold.

    python3 random_pickles.py SEED COUNT

`value` is the data in a form that other programs can compare: tagged lists, numbers as text. Where a pickle has an
opcode that is not about plain data (sets before protocol 4, bytes before protocol 3), `refused` has the first one's name
and position, from pickletools.
"""

import json
import math
import pickle
import pickletools
import random
import struct
import sys

NOT_DATA = {
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX",
    "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER",
}


def text(rng):
    alphabet = rng.choice(["abc xyz_", "a\n\r\t\\'\"\0", "äß\u0100\u2028", "😀\U0010ffff\\u0041", "\x1a\x7f\x80\xff"])
    length = rng.choice([0, 1, 3, 10, 10, 300])
    return "".join(rng.choice(alphabet) for _ in range(length))


def integer(rng):
    bits = rng.choice([1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 62, 63, 64, 65, 100, 2100])
    edge = rng.choice([0, 1, -1, rng.randrange(1 << bits)])
    return rng.choice([1, -1]) * ((1 << bits) + edge) if rng.random() < 0.7 else edge


def number(rng):
    return rng.choice([0.0, -0.0, 1.5, math.pi, 1e300, 5e-324, math.inf, -math.inf, math.nan, rng.random() * 1e6])


def scalar(rng):
    kind = rng.randrange(7)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind < 4:
        return integer(rng)
    if kind == 4:
        return number(rng)
    if kind == 5:
        return text(rng)
    return bytes(rng.randrange(256) for _ in range(rng.choice([0, 1, 5, 300]))) if rng.random() < 0.3 else text(rng)


def key(rng):
    return rng.choice([text(rng), integer(rng), (text(rng), integer(rng))])


def value(rng, depth, shared, size):
    """Random data of at most about `size` parts; collections in `shared` may occur again."""
    if shared and rng.random() < 0.1:
        return rng.choice(shared)
    if depth == 0 or size < 2 or rng.random() < 0.2:
        return scalar(rng)
    length = rng.choice([0, 1, 2, 3, 4, 5])
    kind = rng.randrange(10)
    part = size // max(1, length)
    if kind < 4:
        made = [value(rng, depth - 1, shared, part) for _ in range(length)]
    elif kind < 6:
        made = tuple(value(rng, depth - 1, shared, part) for _ in range(length))
    elif kind < 9:
        made = {key(rng): value(rng, depth - 1, shared, part) for _ in range(length)}
    else:
        made = rng.choice([set, frozenset])(key(rng) for _ in range(length))
    if depth == 1:
        shared.append(made)
    return made


def minimal(number):
    length = number.bit_length() // 8 + 1
    data = number.to_bytes(length, "little", signed=True)
    while len(data) > 1 and (data[-1], data[-2] >> 7) in ((0, 0), (255, 1)):
        data = data[:-1]
    return data.hex()


def told(data):
    if data is None:
        return ["none"]
    if isinstance(data, bool):
        return ["bool", data]
    if isinstance(data, int):
        return ["int", str(data) if -(1 << 63) <= data < 1 << 63 else minimal(data)]
    if isinstance(data, float):
        return ["float", "nan" if math.isnan(data) else struct.pack(">d", data).hex()]
    if isinstance(data, str):
        return ["text", data]
    if isinstance(data, (bytes, bytearray)):
        return ["bytes", data.hex()]
    if isinstance(data, dict):
        return ["dict", [[told(k), told(v)] for k, v in data.items()]]
    if isinstance(data, (set, frozenset)):
        return [type(data).__name__, sorted((told(item) for item in data), key=json.dumps)]
    return [type(data).__name__, [told(item) for item in data]]


def main(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        data = value(rng, rng.randrange(6), [], 200)
        if rng.random() < 0.02:
            # Longer than the batches in which Python writes elements.
            data = rng.choice([list, tuple])(range(2100)) if rng.random() < 0.5 else dict.fromkeys(range(2100))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            dumped = pickle.dumps(data, protocol)
            line = {"protocol": protocol, "pickle": dumped.hex()}
            refused = next(((op.name, pos) for op, _, pos in pickletools.genops(dumped) if op.name in NOT_DATA), None)
            if refused:
                line["refused"] = refused
            else:
                line["value"] = told(pickle.loads(dumped))
            print(json.dumps(line))


main(int(sys.argv[1]), int(sys.argv[2]))
