"""Random overrides and interpolations: most follow the grammar, the rest are such texts with a few changes."""

NAMES = ["a", "b", "foo", "x-y", "_z", "A1", "true", "null", "inf", "range", "int"]
SCALARS = [
    "a", "foo", "b-c", "_", "1", "0", "-3", "+4", "10", "1_000", "007", "1__0", "99999999999999999999",
    "1.5", ".5", "-.5", "1.", "1e3", "1e-05", "2.50", "1e16", "1_0.0_1", "inf", "-inf", "nan", "NaN", "+inf",
    "true", "FALSE", "True", "null", "NULL", "nulls", "trueish", "1a", "a1", "1.2.3", "/tmp/a", "a.b", "a*", "?", "%x",
    "a b", "a  b", "\\,", "\\ ", "a\\=b", "\\\\", "a\\:b", "\\(x\\)", "\\[", "\\{a", "a\\b", "\\\t", "a:b", "a : b", ":",
    "a@b", "a|b", "-", "--", "+", "a-", "$", "$a", "-a", "1-2", "a/b-c", "1e", "e1", ".", "..", "-nan", "0x1F",
]  # fmt: skip
QUOTED = [
    "", "a", "a b", "1", "a,b", "\\\\", "a\\\\", "\\'", '\\"', "a\\b", "\\\\\\'", "é", "${x}", "\n", "a=b", "[1]", "it\\'s", "'",
    '"', "\\\\\\\\", "\\", "null", " ", "{}", "()", "\t",
]  # fmt: skip
INTERPOLATIONS = ["${a}", "${a.b}", "${oc.env:X}", "${a:1,b}", "${}", "${ a }", "${.a}", "${a[0]}", "${a:'b'}", "${a\\}"]
ALPHABET = list("ab1.,:=()[]{}'\"\\$ \t+-~@/_%*?|eEnN#&é\n") + ["${", "}", "\\\\", "\\'", "''", "=="]


def overrides(rng, count):
    return with_mutants(rng, count, lambda: override(rng))


def values(rng, count):
    return with_mutants(rng, count, lambda: value(rng))


def elements(rng, count):
    return with_mutants(rng, count, lambda: element(rng, 2))


def with_mutants(rng, count, make):
    made = []
    while len(made) < count:
        text = make()
        if len(text) > 60:
            continue
        made.append(text)
        if rng.random() < 0.5:
            made.append(mutate(rng, text))
    return made


def mutate(rng, text):
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(text))
        kind = rng.random()
        if kind < 0.4:
            text = text[:at] + rng.choice(ALPHABET) + text[at:]
        elif kind < 0.7:
            text = text[:at] + text[at + 1 :]
        elif kind < 0.85:
            text = text[:at] + rng.choice(ALPHABET) + text[at + 1 :]
        else:
            text = text[:at] + text[at : at + 2][::-1] + text[at + 2 :]
    return text


def blank(rng):
    return rng.choice(["", "", "", "", " ", "  ", "\t"])


def join(rng, items):
    return (blank(rng) + "," + blank(rng)).join(items)


# Overrides.


def override(rng):
    prefix = rng.choice(["", "", "", "", "+", "++", "~"])
    if prefix == "~" and rng.random() < 0.5:
        return prefix + key(rng)
    if rng.random() < 0.03:
        return prefix + key(rng) + "=" + blank(rng)
    items = [override_element(rng, 2) for _ in range(rng.choice([1, 1, 1, 1, 2, 3]))]
    return prefix + key(rng) + "=" + blank(rng) + join(rng, items) + rng.choice(["", "", "", " "])


def key(rng):
    if rng.random() < 0.7:
        return "k"
    parts = [rng.choice(NAMES + ["0", "10", "$x", "a$"]) for _ in range(rng.randint(0, 3))]
    text = rng.choice([".", ".", "/"]).join(parts)
    if rng.random() < 0.3:
        text += "@" + rng.choice(["", "a", "a.b", "$p", "a:b", "_global_", "a/b"])
    return text


def override_element(rng, depth):
    kind = rng.random()
    if depth > 0 and kind < 0.12:
        return "[" + blank(rng) + override_items(rng, depth) + blank(rng) + "]"
    if depth > 0 and kind < 0.22:
        pairs = [
            scalar(rng) + blank(rng) + ":" + blank(rng) + override_element(rng, depth - 1)
            for _ in range(rng.randint(0, 3))
        ]
        return "{" + blank(rng) + join(rng, pairs) + blank(rng) + "}"
    if depth > 0 and kind < 0.52:
        return call(rng, depth)
    if kind < 0.62:
        return quoted(rng)
    if kind < 0.67:
        return rng.choice(INTERPOLATIONS) + rng.choice(["", "", "x", " y"])
    return scalar(rng)


def override_items(rng, depth):
    return join(rng, [override_element(rng, depth - 1) for _ in range(rng.randint(0, 3))])


def scalar(rng):
    if rng.random() < 0.85:
        return rng.choice(SCALARS)
    return rng.choice(SCALARS) + blank(rng) + rng.choice(SCALARS)


def quoted(rng):
    quote = rng.choice("'\"")
    return quote + "".join(rng.choice(QUOTED) for _ in range(rng.randint(0, 2))) + quote


def numeral(rng):
    return rng.choice(
        ["0", "1", "2", "3", "5", "10", "-1", "-3", "0.5", "1.5", "0.1", "-0.25", "1e1", "true", "null", "a", "inf", "nan"]
    )


def call(rng, depth):
    name = rng.choice(
        "int float str bool choice range range interval tag sort sort shuffle glob extend_list nope".split()
    )
    if name in ("range", "interval"):
        args = [numeral(rng) for _ in range(rng.choice([0, 1, 2, 2, 2, 3, 3, 4]))]
        named = ["start", "stop", "step", "end"]
    elif name == "tag":
        args = [rng.choice(["a", "b", "'c d'", "1"]) for _ in range(rng.randint(0, 2))]
        args.append(call(rng, depth - 1) if depth > 0 else "choice(a,b)")
        named = ["sweep"]
    elif name in ("sort", "shuffle"):
        args = sortable(rng, depth)
        named = ["list", "sweep", "reverse"]
    elif name == "glob":
        args = [rng.choice(["*", "a*", "[a*,b*]", "'*b'", "?", "['a']", "[1]", "a", "null"]) for _ in range(rng.randint(0, 3))]
        named = ["include", "exclude"]
    else:
        args = [override_element(rng, depth - 1) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]
        named = ["value"]
    first = len(args) if rng.random() < 0.8 else rng.randint(0, len(args))
    args = args[:first] + [rng.choice(named + NAMES[:2]) + blank(rng) + "=" + blank(rng) + arg for arg in args[first:]]
    if name == "sort" and rng.random() < 0.3:
        args.append("reverse=" + rng.choice(["true", "True", "false", "1"]))
    return name + blank(rng) + "(" + blank(rng) + join(rng, args) + blank(rng) + ")"


def sortable(rng, depth):
    kind = rng.random()
    numbers = [numeral(rng) for _ in range(rng.randint(0, 5))]
    words = [rng.choice(["b", "a", "'c'", "B", "aa", "1"]) for _ in range(rng.randint(0, 4))]
    if kind < 0.25:
        return numbers
    if kind < 0.4:
        return words
    if kind < 0.6:
        return ["[" + join(rng, rng.choice([numbers, words])) + "]"]
    if kind < 0.7:
        return ["[" + join(rng, [f"[{numeral(rng)},{numeral(rng)}]" for _ in range(rng.randint(0, 3))]) + "]"]
    if kind < 0.85:
        return [rng.choice(["choice", "shuffle"]) + "(" + join(rng, numbers) + ")"]
    return ["range(" + join(rng, numbers[:3]) + ")"]


# Interpolations.


def value(rng):
    pieces = []
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.6:
            pieces.append(interpolation(rng, 2))
        else:
            pieces.append(rng.choice(TEXTS))
    return "".join(pieces)


TEXTS = [
    "a", " ", "a b", "$", "$$", "\\", "\\\\", "\\\\\\", "\\${", "\\\\\\${", "\\${x}", "{", "}", "'", '"', "é", ":", "a\\b", "$x", "\n",
    ",", "a\\", "\\$", "\\\\$",
]  # fmt: skip


def interpolation(rng, depth):
    kind = rng.random()
    inside = node(rng, depth) if kind < 0.5 else resolver(rng, depth)
    return "${" + blank(rng) + inside + blank(rng) + "}"


def node(rng, depth):
    text = rng.choice(["", "", "", ".", "..", "..."])
    for at in range(rng.randint(1, 3)):
        part = config_key(rng, depth)
        kind = rng.random()
        if kind < 0.2:
            text += "[" + part + "]"
        else:
            text += ("." if at else "") + part
    return text


def config_key(rng, depth):
    if depth > 0 and rng.random() < 0.2:
        return interpolation(rng, depth - 1)
    return rng.choice(["a", "b_c", "x-y", "0", "10", "$a", "a$", "a,b", "é", "a/b", "a=b", "1e3", "a\nb", "true", "@", "_"])


def resolver(rng, depth):
    names = ["f", "oc.env", "ns.f", "a-b", "_f", "f.0", "null", "", "é"]
    name = interpolation(rng, depth - 1) if depth > 0 and rng.random() < 0.1 else rng.choice(names)
    if depth > 0 and rng.random() < 0.05:
        name += "." + interpolation(rng, depth - 1)
    args = [element(rng, depth) if rng.random() < 0.95 else "" for _ in range(rng.randint(0, 3))]
    return name + blank(rng) + ":" + blank(rng) + join(rng, args)


def element(rng, depth):
    kind = rng.random()
    if depth > 0 and kind < 0.12:
        items = [element(rng, depth - 1) if rng.random() < 0.9 else "" for _ in range(rng.randint(0, 3))]
        return "[" + blank(rng) + join(rng, items) + blank(rng) + "]"
    if depth > 0 and kind < 0.24:
        pairs = [
            scalar(rng) + blank(rng) + ":" + blank(rng) + element(rng, depth - 1) for _ in range(rng.randint(0, 3))
        ]
        return "{" + blank(rng) + join(rng, pairs) + blank(rng) + "}"
    if depth > 0 and kind < 0.4:
        return rng.choice(["", "", "a", "1"]) + interpolation(rng, depth - 1) + rng.choice(["", "", "b", " c"])
    if kind < 0.55:
        quote = rng.choice("'\"")
        parts = [rng.choice(QUOTED + TEXTS) for _ in range(rng.randint(0, 2))]
        if depth > 0 and rng.random() < 0.3:
            parts.append(interpolation(rng, depth - 1))
        return quote + "".join(parts) + quote
    return scalar(rng)
