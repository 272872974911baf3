"""Writes what hydra-core and OmegaConf make of many overrides and interpolations.

    python expect.py [--seed N] [--count N] [--out DIR]

Needs hydra-core 1.3.8 and omegaconf 2.3.1. Each line of `overrides.jsonl` is `[text, result]`, each of
`interpolations.jsonl` is `[rule, text, result]`; a result of `0` means "refused". The inputs are chosen by hand
(`cases.py`), generated from the grammar and mutated (`generate.py`), and depend only on the seed.
"""

import argparse
import json
import random
import sys
import warnings
from pathlib import Path

import hydra.core.override_parser.types as hydra_types
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    Glob,
    IntervalSweep,
    Quote,
    QuotedString,
    RangeSweep,
)
from omegaconf.grammar_parser import parse
from omegaconf.grammar_visitor import GrammarVisitor

import cases
import generate

REFUSED = 0
GROUP_OPTIONS = ["a", "ab", "b", "b1", "c-d", "[x]"]


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def scalar(value):
    """A value with its type visible: floats and large integers are text, and markers are not strings."""
    if type(value) is Marker:
        return {"m": str(value)}
    if isinstance(value, float):
        return {"f": repr(value)}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return {"i": str(value)}
    if isinstance(value, list):
        return [scalar(item) for item in value]
    if isinstance(value, dict):
        return {"d": [[scalar(k), scalar(v)] for k, v in value.items()]}
    return value


def number(value):
    return scalar(int(value) if isinstance(value, bool) else value)


def element(value):
    if isinstance(value, QuotedString):
        return {"q" if value.quote == Quote.single else "Q": value.text}
    if isinstance(value, list):
        return [element(item) for item in value]
    if isinstance(value, dict):
        return {"d": [[element(k), element(v)] for k, v in value.items()]}
    if isinstance(value, ChoiceSweep):
        items = [element(item) for item in value.list]
        return {"c": [items, value.simple_form, value.shuffle, sorted(value.tags)]}
    if isinstance(value, RangeSweep):
        ends = [number(value.start), number(value.stop), number(value.step)]
        return {"r": [*ends, value.shuffle, sorted(value.tags)]}
    if isinstance(value, IntervalSweep):
        return {"n": [number(value.start), number(value.end), sorted(value.tags)]}
    if isinstance(value, Glob):
        return {"g": [element(value.include), element(value.exclude)]}
    return scalar(value)


class Groups:
    """Stands in for the config loader that a glob asks for the options of its group."""

    def get_group_options(self, group, results_filter):
        return list(GROUP_OPTIONS)


def attempt(function):
    try:
        return function()
    except Exception:
        return REFUSED


def bounded(override):
    texts = []
    # A shuffled range is listed whole before the first element, and some ranges never end.
    if isinstance(override._value, RangeSweep):
        override._value.shuffle = False
    for text in override.sweep_string_iterator():
        texts.append(text)
        if len(texts) > 200:
            return "many"
    return texts


def expect_override(parser, text):
    try:
        override = parser.parse_override(text)
    except Exception:
        return REFUSED
    override.config_loader = Groups()
    result = [override.get_key_element(), override.key_or_group, override.package]
    if override.value_type is None:
        return result
    result.append(element(override._value))
    if override.is_sweep_override():
        result.append(attempt(lambda: bounded(override)))
    else:
        written = attempt(lambda: override.get_value_element_as_str())
        # Most values are written back as they came; saying so with a 1 keeps the file small.
        result.append(1 if written == override.get_value_string() else written)
    return result


class Marker(str):
    """What an interpolation resolves to here: a string that shows what was asked for."""


def node_marker(key, memo):
    return Marker(f"<{key}>")


def resolver_marker(name, args, args_str):
    shown = [[scalar(arg) for arg in args], list(args_str)]
    return Marker(f"<{name}:{dumps(shown)}>")


def expect_interpolation(rule, text):
    mode = "DEFAULT_MODE" if rule == "configValue" else "VALUE_MODE"
    try:
        tree = parse(text, parser_rule=rule, lexer_mode=mode)
        visitor = GrammarVisitor(
            node_interpolation_callback=node_marker,
            resolver_interpolation_callback=resolver_marker,
            memo=None,
        )
        return [scalar(visitor.visit(tree))]
    except Exception:
        return REFUSED


def unique(texts):
    return list(dict.fromkeys(texts))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=3000)
    options.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = options.parse_args()
    warnings.simplefilter("ignore")
    # Shuffles keep the order, so that expectations do not change from run to run.
    random.shuffle = hydra_types.shuffle = lambda items: None

    rng = random.Random(options.seed)
    parser = OverridesParser.create()
    texts = unique(cases.OVERRIDES + generate.overrides(rng, options.count))
    lines = [[text, expect_override(parser, text)] for text in texts]
    write(options.out / "overrides.jsonl", lines)

    rng = random.Random(options.seed)
    values = unique(cases.VALUES + generate.values(rng, options.count // 3))
    elements = unique(cases.ELEMENTS + generate.elements(rng, options.count // 3))
    lines = [["v", text, expect_interpolation("configValue", text)] for text in values]
    lines += [["e", text, expect_interpolation("singleElement", text)] for text in elements]
    write(options.out / "interpolations.jsonl", lines)


def write(path, lines):
    path.write_text("".join(dumps(line) + "\n" for line in lines), encoding="utf-8")
    refused = sum(line[-1] == REFUSED for line in lines)
    print(f"{path.name}: {len(lines)} texts, {refused} refused", file=sys.stderr)


if __name__ == "__main__":
    main()
