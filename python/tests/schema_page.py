"""docs/schema.md: every key of every file and output, from the schemas that `llmprof schema` prints."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
BEGIN = "<!-- keys: generated from `llmprof schema` -->\n"


def schemas(binary: Path) -> list[Schema]:
    def printed(*words: str) -> str:
        return subprocess.run([binary, "schema", *words], capture_output=True, text=True, check=True).stdout

    return [json.loads(printed(name)) for name in printed().split()]


def anchor(name: str) -> str:
    return re.sub(r"[^\w-]", "", name.lower().replace(" ", "-"))


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def form(schema: Any) -> str:
    """A type in a few words, with a link to the section of one that has keys."""
    if not isinstance(schema, dict):
        return "any"
    if name := schema.get("$ref"):
        name = name.rsplit("/", 1)[1]
        return f"[{name}](#{anchor(name)})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(form(part) for part in schema[several] if part != {"type": "null"}))
    kinds = schema.get("type", "any")
    kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    if kinds == ["array"]:
        if "prefixItems" in schema:
            return "[" + ", ".join(form(part) for part in schema["prefixItems"]) + "]"
        return f"list of {form(schema.get('items'))}"
    if kinds == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {form(schema['additionalProperties'])}"
    return " or ".join(kinds)


def unit(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    return schema.get("x-unit") or unit(schema.get("items")) or unit(schema.get("additionalProperties"))


def rows(schema: Schema) -> str:
    """The keys of an object."""
    lines = ["| key | type | unit | meaning |", "|---|---|---|---|"]
    required = schema.get("required", [])
    for key, part in schema["properties"].items():
        part = part if isinstance(part, dict) else {}
        if "const" in part:
            continue
        # A variant with one value is described as a whole.
        meaning = part.get("description") or (schema.get("description", "") if len(schema["properties"]) == 1 else "")
        optional = "" if key in required else " (optional)"
        lines.append(f"| `{key}`{optional} | {cell(form(part))} | {unit(part)} | {cell(meaning)} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def variant_name(variant: Schema) -> str:
    """What tells a variant from the others: its tag, or its only key."""
    for key, part in variant.get("properties", {}).items():
        if isinstance(part, dict) and "const" in part:
            return f"Where `{key}` is `{part['const']}`"
    if "properties" in variant:
        return "With " + ", ".join(f"`{key}`" for key in variant["properties"])
    return form(variant)


def body(schema: Schema) -> str:
    """What stands below the heading of a file or a type."""
    text = ""
    if description := schema.get("description"):
        text += f"{description}\n\n"
    if "properties" in schema:
        text += rows(schema) + "\n"
    elif "oneOf" not in schema and "anyOf" not in schema:
        text += f"Type: {form(schema)}.\n\n"
    return text + variants(schema)


def variants(schema: Schema) -> str:
    """What a value may be, one after another."""
    parts = [part for several in ("oneOf", "anyOf", "allOf") for part in schema.get(several, []) if part != {"type": "null"}]
    plain = [part for part in parts if "properties" not in part]
    text = ""
    if plain:
        text += "| value | meaning |\n|---|---|\n"
        for part in plain:
            text += f"| {cell(form(part))} | {cell(part.get('description', ''))} |\n"
        text += "\n"
    for part in parts:
        if "properties" in part:
            described = f": {part['description']}" if "description" in part else ""
            text += f"{variant_name(part)}{described}\n\n{rows(part)}\n{variants(part)}"
    return text


def keys(all_schemas: list[Schema]) -> str:
    text = ""
    types: dict[str, Schema] = {}
    for schema in all_schemas:
        types |= schema.get("$defs", {})
        title = schema["title"] if not schema["$id"].startswith("llmprof.agent.") else schema["$id"]
        text += f"## {title}\n\nSchema `{schema['$id']}`.\n\n{body(schema)}"
    text += "## Types\n\n"
    for name in sorted(types):
        text += f"### {name}\n\n{body(types[name])}"
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def undescribed(all_schemas: list[Schema]) -> list[str]:
    """Keys without a sentence."""
    found = []

    def walk(schema: Any, place: str) -> None:
        if not isinstance(schema, dict):
            return
        properties = schema.get("properties", {})
        contents = [key for key, part in properties.items() if not (isinstance(part, dict) and "const" in part)]
        for key, part in properties.items():
            # A variant with one value is described as a whole, or by its own keys.
            is_described_whole = contents == [key] and ("description" in schema or "properties" in part)
            if key in contents and not is_described_whole and not (isinstance(part, dict) and part.get("description")):
                found.append(f"{place}.{key}")
            walk(part, f"{place}.{key}")
        for several in ("oneOf", "anyOf", "allOf", "prefixItems"):
            for part in schema.get(several, []):
                walk(part, place)
        for inside in ("items", "additionalProperties"):
            walk(schema.get(inside), f"{place}[]")

    for schema in all_schemas:
        walk(schema, schema["$id"])
        for name, part in schema.get("$defs", {}).items():
            walk(part, name)
    return sorted(set(found))


BULLET = re.compile(r"^- \*\*(Proof|Gain|Try):\*\* \S.*\n", re.MULTILINE)


def advice(page: str) -> dict[tuple[str, str], str]:
    """What is written by hand: the list below each kind, by its section and name."""
    found = {}
    for section in page.split("\n## ")[1:]:
        heading, *kinds = section.split("\n### ")
        for kind in kinds:
            found[heading.partition("\n")[0], kind.partition("\n")[0]] = "".join(match[0] for match in BULLET.finditer(kind))
    return found


def findings(all_schemas: list[Schema], page: str) -> str:
    """The page with the kinds and values of the types, and what it says of each."""
    types = next(schema for schema in all_schemas if schema["title"] == "analysis.json")["$defs"]
    conclusions = {part["properties"]["kind"]["const"]: part for part in types["Conclusion"]["oneOf"]}
    sections = {
        "Causes": conclusions.pop("cause")["oneOf"],
        "Served loads": conclusions.pop("serving")["oneOf"],
        "Limits and bounds": list(conclusions.values()),
        "Reasons to abstain": types["Abstention"]["oneOf"],
    }
    written = advice(page)
    text = page.partition("\n## ")[0]
    for heading, kinds in sections.items():
        intro = page.partition(f"\n## {heading}\n")[2].partition("\n### ")[0]
        text += f"\n## {heading}\n{intro}"
        for kind in kinds:
            tags = [part["const"] for part in kind["properties"].values() if "const" in part]
            values = [f"`{key}`" for key, part in kind["properties"].items() if "const" not in part]
            assert tags and kind.get("description"), f"a kind without a name or a sentence: {kind}"
            text += f"\n### `{tags[0]}`\n\n{kind['description']}\n\n{written.get((heading, f'`{tags[0]}`'), '')}"
            text += f"\nValues: {', '.join(values)}.\n" if values else ""
    return text


def without_advice(page: str) -> list[str]:
    """Kinds that say nothing of their proof or of what to try."""
    needed = {"Causes": 3, "Reasons to abstain": 1}
    return [name for (heading, name), bullets in advice(page).items() if bullets.count("\n") != needed.get(heading, 2)]
