"""Writes expectations.json: what OmegaConf 2.3 and PyYAML 6 make of generated inputs.

    python crates/config/tests/omegaconf/recipe.py

The inputs are drawn with a fixed seed, so the file only changes with this recipe or with the
libraries. The Rust test `omegaconf` compares against the file and needs no Python.
"""

import io
import json
import pathlib
import random
import warnings

import omegaconf
import yaml
from omegaconf import OmegaConf
from omegaconf._utils import split_key

warnings.simplefilter("ignore")
R = random.Random(20231)


def encode(value):
    """JSON that keeps types apart: {"i": digits}, {"f": repr}, {"b": bytes}, {"d": pairs}."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"i": str(value)}
    if isinstance(value, float):
        return {"f": repr(value)}
    if isinstance(value, bytes):
        return {"b": list(value)}
    if isinstance(value, list):
        return [encode(item) for item in value]
    return {"d": [[encode(key), encode(item)] for key, item in value.items()]}


def attempt(function):
    """{"ok": result} or {"err": class name}."""
    try:
        return {"ok": function()}
    except RecursionError:
        return {"err": "RecursionError"}
    except Exception as error:  # every class counts
        return {"err": type(error).__name__}


def load(text):
    return OmegaConf.load(io.StringIO(text))


# --- scalars -----------------------------------------------------------------------------------

WORDS = """y Y yes Yes YES yEs n N no No NO true True TRUE tRUE false False FALSE on On ON off Off OFF null Null NULL nUll
~ ??? nan NaN .nan .NaN .NAN .Nan inf .inf .Inf .INF -.inf +.inf +.INF -inf 0 00 -0 +0 007 08 0b 0b_ 0b101 0b2 0x 0x_ 0x1F 0xfg
0X1F 0o17 017 -017 1_000 1__0 1_ _1 1_000.5 1:30 190:20:30 1:60 1:5 1:05 -1:30 1:30.5 1:30. 1:30.5e3 2001-12-14 2001-1-1
2001-12-14t21:59:43.10-05:00 1e3 1E3 1e+3 1.e3 1.5e3 1.5e+3 .5 .5e3 .5e+3 -.5 +.5 . .. ... 5. -5. 1.0 1.5. 1..5 1.5_5 1._5 1_.5
1e 1e+ e3 e - -- --- + +- <<x =x = << : :: -a ?a :a a:b a#b a,b 0.1 1e400 -1e400 123456789012345678901234567890 0xffffffffffffffffff
9223372036854775807 9223372036854775808 -9223372036854775808 1.7976931348623157e308 5e-324 1e-7 0.00001 1e16 12345678.9 ${a} ${a} \\${a}
1_2e3 1_2_.5 .1_2 ._1 .1_ +1_2 1,000 1%""".split()


def scalars():
    texts = set(WORDS)
    for size in range(1, 9):
        for _ in range(330):
            texts.add("".join(R.choice("0011223456789__..::--++eExXobaf") for _ in range(size)))
    plain = []
    for text in sorted(texts):
        # Only tokens that stand as one plain scalar: the rest belongs to the documents.
        try:
            scalar = yaml.compose(f"k: {text}").value[0][1]
        except yaml.YAMLError:
            continue
        if isinstance(scalar, yaml.ScalarNode) and scalar.value == text and scalar.style is None:
            plain.append(text)
    rows = [[text, attempt(lambda text=text: encode(OmegaConf.to_container(load(f"k: {text}"))["k"]))] for text in plain]
    # A scalar that stays the string it is needs no second column.
    return [[text] if result == {"ok": text} else [text, result] for text, result in rows]


# --- documents ---------------------------------------------------------------------------------

DOCUMENTS = [
    "", "# only a comment\n", "---\n", "...\n", "null\n", "word\n", "'a: 1'\n", "5\n", "true\n", "[]\n", "[1, 2]\n",
    "a: 1\n---\nb: 2\n", "a: 1\n...\n", "a: 1\n...\n---\n", "%YAML 1.1\n---\na: 1\n", "%YAML 2.0\n---\na: 1\n", "%FOO x\n---\na: 1\n",
    "a: 1\na: 2\n", "1: a\n1: b\n", "on: a\ntrue: b\n", "1: a\n1.0: b\ntrue: c\n", "null: a\n", "~: a\n", "? [a]\n: 1\n", "{a}: 1\n",
    "a: &x {p: 1}\nb: {<<: *x, q: 2}\n", "a: &x {p: 1}\nb: {q: 2, <<: *x, p: 3}\n", "a: &x {p: 1}\nb: &y {p: 2}\nc: {<<: [*x, *y]}\n",
    "a: {<<: 1}\n", "a: {<<: [1]}\n", "<<: {a: 1}\n<<: {b: 2}\nc: 3\n", "a: <<\n", "a: =\n", "=: 1\n",
    "b: &b {a: 1}\nouter: {x: &x {<<: *b, a: 2}}\ny: {<<: *x}\n", "b: &b {a: 1}\nx: &x {<<: *b, a: 2}\ny: {<<: *x}\n",
    "a: &a 1\nb: &a 2\n", "a: *x\n", "a: &a [*a]\n", "a: &a {b: *a}\n", "a: &a\nb: *a\n",
    "a: !!str 5\nb: !!int '7'\nc: !!float 1\nd: !!bool yes\ne: !!null x\n", "a: ! 12\n", "a: ! '12'\n", "a: !!str\n", "a: !foo 1\n",
    "a: !!binary aGk=\n", "a: !!binary aGk\n", "a: !!set {x, y}\n", "a: !!omap [x: 1, y: 2]\n", "a: !!pairs [x: 1, x: 2]\n",
    "a: !!omap {x: 1}\n", "a: !!timestamp 2001-12-14\n", "a: !!int x\n", "a: !!bool maybe\n", "a: !!seq {}\n", "a: !!map []\n",
    "!!binary aGk=: 1\n", "a: 0b_\n", "a: 0x_\n", "a: |\n  x\n  y\n", "a: |-\n  x\n", "a: |+\n  x\n\n", "a: >\n  x\n  y\n\n  z\n",
    "a: |2\n   x\n", "a: |0\n  x\n", "a: >-\n  x\n   y\n  z\n", "a: |\n  x", "a: |\n", "a: >\n\n\n", "a: 'it''s'\n", 'a: "\\x41\\u00e9\\U0001F600\\n\\/"\n',
    'a: "\\q"\n', 'a: "x\n  y\n\n  z"\n', "a: x\n  y\n", "a: x # c\n", "a: x#c\n", "a:\tx\n", "a: x\t\n", "\ta: 1\n", "a: 1\n\tb: 2\n",
    "a: {b: 1,c: 2}\n", 'a: {"b":1}\n', '"a":1\n', "a: [x:y, z]\n", "a: [x: y, z]\n", "a: {x, y: 1}\n", "a: [1,2,]\n", "a: [,]\n", "a: {,}\n",
    "a: [\n1,\n2\n]\n", "a: b: c\n", "- a\n- b: 1\n  c: 2\n", "a:\n- 1\n- 2\nb: 1\n", "- - a\n  - b\n", "-\n- x\n", "a: -\n", "a: - b\n", "? a\n: b\n", "? a\n", ": b\n",
    "a: @x\n", "a: `x\n", "a: %x\n", "a: *\n", "a: &\n", "a: !<tag:yaml.org,2002:str> 1\n", "%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1\n", "a: !e!x 1\n",
    "\ufeffa: 1\n", "a: \x01\n", "a: \x85b\n", "a: 'x\u2028y'\n", "a: é\n", "a\n  b: 1\n", "a: [1\n", "a: {b\n", "a: ]\n", "a: 'x\n", "a:\n  b: 1\n c: 2\n",
    "a: ${\n", "a: ${b\n", "a: ${b}\nb: 1\n", "a: ${x:}\n", "${a}: 1\n", "a: \\${b}\n", "a: ${a.b[0].c}\n", "a: ${..}\n", "a: ${.b}\n", "a: $\n", "a: $$\n", "a: '${a'\n",
    "a" * 1100 + ": 1\n", "a: " + "[" * 40 + "]" * 40 + "\n", "a: 1\n b: 2\n", "a: 1\nb\n", "- a\nb: 1\n", "a: 1\n- b\n",
]

ATOMS = ["a", "b", "key", "1", "1.5", "on", "null", "~", "???", "'q'", '"d"', '"x\\ty"', "-", "?", ":", "#", "&a", "*a", "!!str", "!!int", "!", "[", "]",
         "{", "}", ",", "|", ">", "|-", ">+", "<<", "=", "---", "...", "%", "@", "  ", "\t", "\n", "\n  ", "\n- ", "\n    ", ": ", "- ", "a: ", "b: 2",
         "\n\n", "é", "0x1F", "1e3", "yes", "<<: *a", "k: &a {x: 1}", "# c", "a:b", "'", '"', "x y", "\\", "[1, 2]", "{a: 1}", "? a", "\r\n", "${a}"]


def tree(depth=0):
    kind = R.random()
    pad = "  " * depth
    if depth > 2 or kind < 0.5:
        return R.choice(["1", "x", "'y z'", "null", "[1, 2, a]", "{p: 1, q: r}", '"m\\n n"', f"|\n{pad}  text\n{pad}  more", f">-\n{pad}  f1\n{pad}  f2",
                         "!!str 5", "  # comment", "a # c", "http://x:80/", "-1", "${a}", "1e3"])
    if kind < 0.8:
        return "\n" + "\n".join(f"{pad}  {key}: {tree(depth + 1)}" for key in R.sample("abcde", R.randint(1, 3)))
    return "\n" + "\n".join(f"{pad}- {tree(depth + 1)}" for _ in range(R.randint(1, 3)))


def documents():
    texts = list(DOCUMENTS)
    while len(texts) < 560:
        if R.random() < 0.35:
            text = "".join(R.choice(ATOMS) for _ in range(R.randint(1, 7)))
        else:
            text = "\n".join(f"{key}: {tree()}" for key in R.sample("abcdefgh", R.randint(1, 3))) + "\n"
            if R.random() < 0.4:
                at = R.randrange(len(text))
                text = text[:at] + R.choice(ATOMS) + text[at + R.randint(0, 2):]
        texts.append(text)
    return [[text, attempt(lambda text=text: encode(OmegaConf.to_container(load(text))))] for text in dict.fromkeys(texts)]


# --- dumps -------------------------------------------------------------------------------------

LETTERS = list("abz019 .:-_#'\"\\,[]{}&*!|>%@`?=~<\n\t") + [
    "  ", "é", "\u2028", "\x85", "\ufeff", "\U0001f600", "\x07", "\xa0", "???", "null", "true", "yes", "word ", "longerword ", "12", "1e5", ".5", "0x1f",
    "1_0", "inf", "nan", "2020-01-01", "---", "...", "\n\n", "\n ", "\u0661", "\r", "\u200b", "\x7f", "\U0010ffff"]
PROSE = ["word ", " ", "é ", "x", "longish-token ", "'", "\n", "\\", '"', "\U0001f600", ": "] + ["lorem "] * 6


def dumps():
    strings = set(WORDS) | {"", " ", "a" * 130, "k " * 60, "a" * 122, "a" * 123, "é" * 122, "é" * 123}
    while len(strings) < 560:
        if R.random() < 0.9:
            strings.add("".join(R.choice(LETTERS) for _ in range(R.randint(0, 6))))
        else:
            strings.add("".join(R.choice(PROSE) for _ in range(R.randint(12, 30))))
    strings = [text for text in sorted(strings) if "${" not in text]
    # One document each as a value, as a key and in nested lists.
    return [[text, OmegaConf.to_yaml(OmegaConf.create({"k": text, text: [[text]]}))] for text in strings]


def roundtrips():
    texts = [text for text, result in documents_made if "ok" in result][:: 5]
    extra = ["a: [1.0, 1e16, 1e-5, 1e22, .inf, -.inf, .nan, -0.0, 0.1, 123456789.123, 5e-324]\n", "a: !!binary aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8=\n",
             "!!binary aGk=: 1\n", "a: !!binary ''\n", "1: a\n1.5: b\ntrue: c\n", "a: {}\nb: []\nc: {d: {}}\ne: [[], {}]\n", "- {a: 1, b: [1, {c: 2}]}\n- [[1, [2]]]\n", "a: [{b: [1]}, [{c: 1}]]\n"]
    return [[text, OmegaConf.to_yaml(load(text))] for text in texts + extra]


# --- configs -----------------------------------------------------------------------------------

KEYS = "abcd"
SCALARS = ["1", "2.5", "x", "null", "???", "true", "'12'", "[1, 2]", "[]", "{}", "[{a: 1}, 2]"]
REFERENCES = ["${a}", "${b}", "${a.b}", "${c.d}", "${.a}", "${.b}", "${..a}", "${..c}", "${...b}", "x${a}y", "${a}${b}", "${a[0]}", "${c[b]}", "${.b[1]}",
              "${a.${b}}", "${oc.select:a}", "${oc.select:zz,7}", "${oc.select:.b,[1]}", "${oc.env:HOME_X,dflt}", "${oc.env:VAR}", "${oc.env:NOPE}",
              "${oc.env:NOPE,null}", "${oc.decode:'[1,2]'}", "${oc.decode:${oc.env:NUM}}", "${oc.decode:null}", "${oc.create:{a: 1, b: [2]}}", "${oc.create:'x: 1'}",
              "${oc.dict.keys:a}", "${oc.dict.values:a}", "${oc.dict.values:.a}", "${oc.deprecated:a}", "${nope:1}", "\\${a}", "\\\\${b}", "${c.zz}", "${zz}",
              "${oc.select:c.d,${b}}", "${oc.create:[1,${b}]}", "a: ${b}", "${oc.decode:1,2}", "${oc.env:VAR}/${b}"]


def config(depth=0, references=0.35):
    lines = []
    for key in R.sample(KEYS, R.randint(1, 4 if depth == 0 else 2)):
        pad = "  " * depth
        draw = R.random()
        if draw < references:
            lines.append(f"{pad}{key}: {json.dumps(R.choice(REFERENCES))}")
        elif draw < references + 0.25 and depth < 2:
            lines.append(f"{pad}{key}:\n{config(depth + 1, references)}")
        elif draw < references + 0.32 and depth < 2:
            lines.append(f"{pad}{key}: [{R.choice(SCALARS)}, {json.dumps(R.choice(REFERENCES))}, {{a: {R.choice(SCALARS)}}}]")
        else:
            lines.append(f"{pad}{key}: {R.choice(SCALARS)}")
    return "\n".join(lines)


ENVIRONMENT = {"VAR": "value", "NUM": "12"}


def resolved_in_place(text):
    cfg = OmegaConf.create(text)
    OmegaConf.resolve(cfg)
    return OmegaConf.to_yaml(cfg)


HAND_RESOLVED = [
    "a: \\${x}\nb: ${a}\n", "b: ${a}\na: \\${x}\n", "a: ${b}\nb: ${a}\n", "a: ${a}\n", "a: {b: ${a}}\n", "a: {b: ${..c}}\nc: {d: ${a}}\n", "a: {x: ${b}}\nb: {y: ${a}}\n",
    "a: '${b} ${c}'\nb: {p: [1, x, null], q: 1.5}\nc: true\n", "a: ${b.c}\nb: 5\n", "a: ${b.x}\nb: [1]\n", "a: ${b.9}\nb: [1]\n", "a: ${b[-1]}\nb: [1]\n", "a: ${b}\nb: ???\n", "a: ${b.c}\nb: {c: ???}\n",
    "a: 'x ${b}'\nb: ???\n", "a: ${b}\nb: ${c}\nc: ${d}\nd: 4\n", "a: ${b.c}\nb: ${d}\nd: {c: ${.e}, e: 7}\n", "1: x\na: ${1}\n", "'1': x\na: ${1}\n", "a: ${oc.env:VAR}\nb: ${oc.env:}\n",
    "a: ${oc.env:VAR,1,2}\n", "a: ${oc.env:NOPE,[1,'x']}\n", "a: ${oc.env:NOPE,1.50}\n", "a: ${oc.env:1}\n", "a: ${oc.decode:'${b}'}\nb: '[1,2]'\n", "a: ${oc.decode:'{x: ${b}}'}\nb: 3\n", "a: ${oc.decode:' 1 '}\n", "a: ${oc.decode:5}\n",
    "a: ${oc.decode:'}'}\n", "a: ${oc.create:5}\n", "a: ${oc.create:null}\n", "a: ${oc.create:{x: ${.b}}}\nb: 3\n", "a: ${oc.create:${b}}\nb: {c: ${.d}, d: 1}\n", "a: {x: '${oc.create:\"y: ${..b}\"}'}\nb: 3\n",
    "a: ${oc.dict.keys:b}\nb: {1: x, y: 2}\n", "a: ${oc.dict.values:b}\nb: {x: 1, y: '${c}'}\nc: [1]\n", "a: {x: '${oc.dict.values:.y}', y: {p: 1}}\n", "a: ${oc.dict.keys:b}\nb: 5\n", "a: ${oc.dict.keys:zz}\n", "a: ${oc.dict.keys:b}\nb: ???\n",
    "a: ${oc.dict.keys:${b}}\nb: {x: 1}\n", "a: ${oc.select:b.c.d,9}\nb: 5\n", "a: ${oc.select:b,9}\nb: ???\n", "a: ${oc.select:b,9}\nb: ${zz}\n", "a: ${oc.select:....b,9}\n", "a: ${oc.select:b.x,9}\nb: [1]\n", "a: ${oc.select:b}\nb: {c: '${d}'}\nd: 1\n",
    "a: ${oc.deprecated:b}\nb: 1\n", "a: ${oc.deprecated:b,'use $NEW_KEY'}\nb: 1\n", "a: ${oc.deprecated:zz}\n", "a: ${oc.deprecated:b}\nb: {c: 1}\n", "a: ${x${b}}\nxq: 1\nb: q\n", "a: ${${b}:VAR}\nb: oc.env\n", "a: ${oc.${b}:VAR}\nb: env\n", "a: ${${b}}\nb: 5\n",
    "a: ${b}\nb: {c: '${..d}', d: 2}\nd: 1\n", "a: [1, '${.0}', '${..b}']\nb: 3\n", "a: {b: {c: '${....d}'}}\nd: 1\n", "a: {b: {c: '${...d}'}}\nd: 1\n", "a: ${b.c}\nb: null\n", "a: ${b}\nb: null\nc: 'x${b}'\n", "a: 'n: ${b}'\nb: 1e20\n",
    "a: 'n: ${b}'\nb: 0x10\n", "a: '${b}'\nb: !!binary aGk=\n", "a: 'x${b}'\nb: !!binary aGk=\n", "a: 'x${b}'\nb: {c: '${d}', e: ???}\nd: 1\n", "d: ${oc.select:zz,${b}}\nb: ${oc.create:{a: 1, b: [2]}}\n", "d: [1, '${oc.select:zz,${b}}']\nb: {c: 1}\n", "a: ${oc.env:VAR}${oc.env:NUM}\n", "a: ${oc.nope:VAR}\n", "a: ${oc.decode:${oc.env:NUM}}\n", "a: \\\\\\${b}\nb: 1\n", "a: '\\\\${b}'\nb: 1\n",
]


def resolutions():
    texts = list(HAND_RESOLVED) + [config() + "\n" for _ in range(260)]
    rows = []
    for text in dict.fromkeys(texts):
        if "err" in attempt(lambda: OmegaConf.create(text)):
            continue
        copy = attempt(lambda: OmegaConf.to_yaml(OmegaConf.create(text), resolve=True))
        place = attempt(lambda: resolved_in_place(text))
        rows.append([text, copy, place if place != copy else None])
    return rows


def merges():
    rows = []
    hand = [("a: 1", "a: {b: 1}"), ("a: {b: 1}", "a: 1"), ("a: {b: 1}", "a: null"), ("a: {b: 1}", "a: ???"), ("a: 1", "a: ???"), ("a: [1]", "a: {b: 1}"), ("a: {b: 1}", "a: [1]"), ("a: ???", "a: {b: 1}"), ("a: null", "a: {b: 1}"),
            ("a: ${b}\nb: {x: 1}", "a: {y: 2}"), ("a: ${b}\nb: {x: 1}", "a: ???"), ("a: ${b}\nb: [1]", "a: [2, 3]"), ("a: ${b}\nb: [1]", "a: {y: 1}"), ("a: ${zz}", "a: {y: 1}"), ("a: {b: 1}", "a: ${c}"), ("b: ${oc.decode:'[1,2]'}", "b: {c: 1}"), ("[1]", "[2]"), ("[1]", "{a: 1}"), ("{a: 1}", "[1]"), ("1: a", "1.0: b"), ("a: {b: {c: 1}, d: 2}", "a: {b: {e: 3}}\nf: 4")]
    pairs = hand + [(config(references=0.2), config(references=0.2)) for _ in range(220)]
    for first, second in dict.fromkeys(pairs):
        if any("err" in attempt(lambda text=text: OmegaConf.create(text)) for text in (first, second)):
            continue
        rows.append([first, second, attempt(lambda: OmegaConf.to_yaml(OmegaConf.merge(OmegaConf.create(first), OmegaConf.create(second))))])
    return rows


PATHS = ["a", "b", "zz", "a.b", "a.zz", "a.b.c", "a[b]", "a[0]", "a.0", "a.1.a", "c.d", "c[d][0]", "a.b.c.d", "d.-1", "a[zz].b", "b.1", "a.9", "a.x"]


def updates():
    rows = []
    for _ in range(240):
        text, key = config(references=0.15), R.choice(PATHS)
        value = R.choice(["1", "x", "null", "???", "{p: 1}", "[3]", "{b: {q: 1}}", "${b}"])
        struct, merge, force = R.random() < 0.5, R.random() < 0.7, R.random() < 0.4
        if "err" in attempt(lambda: OmegaConf.create(text)):
            continue

        def run():
            cfg = OmegaConf.create(text)
            OmegaConf.set_struct(cfg, True if struct else None)
            OmegaConf.update(cfg, key, yaml.safe_load(value), merge=merge, force_add=force)
            return OmegaConf.to_yaml(cfg)

        rows.append([text, key, value, [struct, merge, force], attempt(run)])
    return rows


def selections():
    rows = []
    for _ in range(220):
        text, key = config(), R.choice(PATHS + [".a", "", "..a"])
        if "err" in attempt(lambda: OmegaConf.create(text)):
            continue

        def run():
            found = OmegaConf.select(OmegaConf.create(text), key)
            return encode(OmegaConf.to_container(found) if OmegaConf.is_config(found) else found)

        rows.append([text, key, attempt(run)])
    return rows


def splits():
    paths = ["", "a", "a.b", "a[b]", ".a.b[c].d", "[a].b", "..a", "..[a]", "a..b", "a.", "a[", "a[b", "a]b", "a[b]c", "a[][b]", "a[b].c[d]", "[a][b]", ".", "..", "a.[b]", "a[b.c]", "é.ü[ß]"]
    paths += ["".join(R.choice("ab.[]") for _ in range(R.randint(1, 7))) for _ in range(200)]
    return [[path, split_key(path)] for path in dict.fromkeys(paths)]


if __name__ == "__main__":
    import os

    os.environ.update(ENVIRONMENT)
    for absent in ("NOPE", "HOME_X"):
        os.environ.pop(absent, None)
    documents_made = documents()
    expectations = {
        "made_with": f"omegaconf {omegaconf.__version__}, PyYAML {yaml.__version__}",
        "environment": ENVIRONMENT,
        "scalars": scalars(),
        "documents": documents_made,
        "strings": dumps(),
        "dumps": roundtrips(),
        "resolutions": resolutions(),
        "merges": merges(),
        "updates": updates(),
        "selections": selections(),
        "splits": splits(),
    }
    lines = []
    for name, rows in expectations.items():
        if isinstance(rows, list):
            body = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
            lines.append(f"{json.dumps(name)}:[\n{body}\n]")
        else:
            lines.append(f"{json.dumps(name)}:{json.dumps(rows)}")
    path = pathlib.Path(__file__).with_name("expectations.json")
    path.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(path.name, path.stat().st_size, {name: len(rows) for name, rows in expectations.items() if isinstance(rows, list)})
