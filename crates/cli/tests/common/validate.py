"""Validates JSON documents against JSON Schemas, with keys refused that a schema does not name.

Standard input has a line for each document: `{"name": …, "schema": …, "document": …}`.
"""

import json
import sys

from jsonschema import Draft202012Validator

# No list of a fixed length is longer.
FIRST_ELEMENTS = 16
STRUCTURE = {"type", "$ref", "properties", "oneOf", "anyOf", "allOf", "enum", "const"}


def close(schema, is_place=True):
    """Refuses unknown keys at every place of a document. Parts that describe the same place are left open."""
    if not isinstance(schema, dict):
        return
    if is_place and STRUCTURE & schema.keys():
        schema["unevaluatedProperties"] = False
    for part in schema.get("properties", {}).values():
        close(part)
    for key in ("items", "additionalProperties"):
        close(schema.get(key))
    for part in schema.get("prefixItems", []):
        close(part)
    for key in ("oneOf", "anyOf", "allOf"):
        for part in schema.get(key, []):
            close(part, is_place=False)
    for part in schema.get("$defs", {}).values():
        close(part, is_place=False)


def shape(document):
    """Keys and kinds of values, without the values."""
    if isinstance(document, dict):
        return tuple((key, shape(value)) for key, value in document.items())
    if isinstance(document, list):
        return tuple(sorted({repr(shape(value)) for value in document}))
    return type(document).__name__


def thinned(document):
    """Long lists by their first elements and one of every other shape: a list of a thousand numbers is checked once."""
    if isinstance(document, dict):
        return {key: thinned(value) for key, value in document.items()}
    if isinstance(document, list):
        seen = set()
        kept = []
        for value in document:
            kind = repr(shape(value))
            if len(kept) < FIRST_ELEMENTS or kind not in seen:
                kept.append(thinned(value))
            seen.add(kind)
        return kept
    return document


def deepest(error):
    """The error of the alternative that the document fits best."""
    while error.context:
        error = max(error.context, key=lambda one: len(one.absolute_path))
    return error


failures = []
for line in sys.stdin:
    case = json.loads(line)
    close(case["schema"])
    Draft202012Validator.check_schema(case["schema"])
    for error in Draft202012Validator(case["schema"]).iter_errors(thinned(case["document"])):
        error = deepest(error)
        failures.append(f"{case['name']} at {error.json_path}: {error.message[:300]}")
print("\n".join(failures[:40]))
sys.exit(bool(failures))
