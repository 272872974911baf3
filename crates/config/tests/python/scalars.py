"""Random scalars, for YAML and for the override grammar: (feature, text)."""

import json
import struct

TRICKY = [
    "yes", "No", "on", "OFF", "y", "n", "true", "True", "tRUE", "~", "null", "Null", "nUll", "", "0", "-0", "+1", "007", "08", "0o17", "0x1F", "0x_f", "0b11",
    "1_000", "1__0", "1_", "_1", "1:30", "190:20:30", "1:30.5", "1:60", "-1:30", ".5", "-.5", "+.5", ".5e3", "5.", "1.e3", "1e3", "1E-3", "1e", "1.5e+10",
    "1e400", "-1e400", "1e-400", ".inf", "-.inf", "+.INF", ".NaN", "inf", "nan", "1.2.3", "2001-12-14", "2001-12-14 21:59:43", "12e03", "0.1e1", "0.", "-0.0",
    "123456789012345678901234567890", "1e16", "1e15", "0.0001", "0.00001", "123456.789e3", "0x", "0b", "0b2", "1-2", "--", "a b", "it's", "a:b", "a#b", "a %",
    "x,y", "50%", "$x", "a$b", "naïve", "日本語", "😀", "<<x", "=x", "a=b", "/a/b.c", "C:\\x", "~x", "1 2", "e5", "NaN", "None", "none", ".", "..", "?x", "-x",
]
SYMBOLS = " abz019_-.:,#'\"[]{}&*!|>%@`?=+~$/\\()<;^\té日😀"
WORDS = ["abc", "a-b", "a_b", "a.b", "a/b", "/x/y.z", "a+b", "a$b", "50%", "a*", "*b", "x@y", "w?", "p|q", "a:b", "a: b", "k:v:w", "1a", "1.5x", "0x1F", "1:30", "007", "on", "yes", "a b", "a  b c", "-x", "--y", ".", "-", "?", "a\\,b", "a\\ b", "a\\=b", "a\\(b\\)", "a\\[0\\]", "a\\{b\\}", "a\\:b", "a\\\\b", "c\\d", "???", "repeat:3", "decode@*", "http://h/p", "1e", "1_", "_", "$"]
NUMBERS = ["0", "1", "-1", "+1", "1_000", "10", "1.5", "-1.5", "1.", ".5", "-.5", "1e3", "1E-3", "1.e2", "1_0.5", "1e400", "inf", "-inf", "nan", "NaN", "-0.0", "1e16", "0.00001", "123456789012345678901234567890"]
KEYWORDS = ["true", "True", "FALSE", "null", "NULL", "Null", "false"]


def any_float(rng):
    """A float of any size, as Python or as fixed text writes it."""
    draw = rng.random()
    if draw < 0.4:
        value = struct.unpack("<d", rng.randbytes(8))[0]
        if value != value or value in (float("inf"), float("-inf")):
            return "1.25"
        return repr(value)
    if draw < 0.7:
        return f"{rng.uniform(-1, 1) * 10 ** rng.randint(-8, 20):.{rng.randint(0, 12)}f}"
    return f"{rng.randint(0, 99)}.{rng.randint(0, 9999)}e{rng.choice(['', '+', '-'])}{rng.randint(0, 30)}"


def any_text(rng, longest=12):
    return "".join(rng.choice(SYMBOLS) for _ in range(rng.randint(0, longest)))


def double_quoted(text, ascii_only):
    """A text in double quotes with YAML's escapes.

    JSON writes a character beyond 16 bits as two escapes, which YAML reads as two halves of a character. Python can
    hold these in a text and Rust cannot, so they are not made here.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    if ascii_only:
        quoted = "".join(char if char.isascii() else f"\\U{ord(char):08x}" for char in quoted)
    return quoted


def yaml(rng):
    """A scalar after `key: `."""
    draw = rng.random()
    if draw < 0.35:
        return "tricky plain scalar", rng.choice(TRICKY) if rng.random() < 0.9 else "# comment"
    if draw < 0.45:
        return "number", str(rng.randint(-(10**6), 10**6))
    if draw < 0.55:
        return "float", any_float(rng)
    if draw < 0.7:
        return "single-quoted scalar", "'" + any_text(rng).replace("'", "''").replace("${", "$ {") + "'"
    if draw < 0.8:
        return "double-quoted scalar", double_quoted(any_text(rng).replace("${", "$ {"), rng.random() < 0.5)
    if draw < 0.85:
        return "quoted tricky scalar", "'" + rng.choice(TRICKY).replace("'", "''") + "'"
    if draw < 0.89:
        return "long text", " ".join(rng.choice(["word", "longer-word", "a", "it's", "x:y"]) for _ in range(rng.randint(15, 40)))
    return "plain word", rng.choice(["abc", "hello world", "cuda:0", "bf16", "model.bin"])


def yaml_flow(rng):
    """A scalar inside a flow collection."""
    draw = rng.random()
    if draw < 0.5:
        safe = [text for text in TRICKY if text and not set(text) & set(",[]{}#'") and text not in ("-", "?x", "~x")]
        return "tricky plain scalar", rng.choice(safe)
    if draw < 0.75:
        return "single-quoted scalar", "'" + any_text(rng, 6).replace("'", "''").replace("${", "$ {") + "'"
    return "number", str(rng.randint(-100, 100))


def override(rng, paths, depth=2):
    """A value after `key=`; never a sweep at the top."""
    draw = rng.random()
    if depth and draw < 0.13:
        items = [override(rng, paths, depth - 1)[1] for _ in range(rng.randint(0, 3))]
        return "list value", "[" + rng.choice([",", ", ", " , "]).join(items) + "]"
    if depth and draw < 0.26:
        keys = rng.sample(["p", "q", "1", "r-s", "t u", "a/b", "true", "1.5"], rng.randint(0, 3))
        return "dict value", "{" + ",".join(f"{key}:{override(rng, paths, depth - 1)[1]}" for key in keys) + "}"
    if draw < 0.36:
        return "number value", rng.choice(NUMBERS)
    if draw < 0.42:
        return "float value", any_float(rng)
    if draw < 0.5:
        return "keyword value", rng.choice(KEYWORDS)
    if draw < 0.58:
        text = any_text(rng).replace("${", "$ {").replace("\t", " ")
        if rng.random() < 0.5:
            return "quoted value", "'" + escape(text, "'") + "'"
        return "quoted value", '"' + escape(text, '"') + '"'
    if draw < 0.64 and paths:
        path = rng.choice(paths)
        return "interpolation value", rng.choice(["${" + path + "}", "x${" + path + "}", "'${" + path + "} y'", "${oc.env:USER}", "${oc.env:NOPE,4}"])
    if draw < 0.7:
        return "cast value", rng.choice(["int(3.7)", "str(5)", "float('1')", "bool(0)", "str([1,a])", "int([1.5,2])", "float({p:1})", "sort([2,1,3])", "sort([b,a],reverse=true)", "str(int(2.5))", "bool('true')"])
    return "plain value", rng.choice(WORDS)


def escape(text, quote):
    """Escapes a text for a quoted value: backslashes count only before a quote."""
    out, backslashes = "", 0
    for char in text:
        if char == "\\":
            backslashes += 1
            continue
        out += "\\" * (backslashes * 2 if char == quote else backslashes)
        backslashes = 0
        out += "\\" + quote if char == quote else char
    return out + "\\" * (backslashes * 2)
