"""Sources of a recipe, its YAML file and the overrides: parsing, string options, locations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attention_zoo.data.reading import get_first_line
from attention_zoo.json_files import MAX_DEPTH, MAX_RECIPE_BYTES, read_limited
from attention_zoo.registry import did_you_mean

RENAMED_KEYS = {("data", "cut_source"): "truncate_source"}
"""Present names of keys by the section and the name in earlier recipes."""
RENAMED_KEYS_OF = {
    "captioning": {("data", "told"): "max_captions", ("model", "look"): "attention"},
}
"""The same for one task."""

MAX_NODES = 10_000
"""Maximum number of keys and values of a recipe, with those of an anchor for each alias."""

_TOO_MANY = f"{{path}}: has more than {MAX_NODES:,} keys and values"
_BRACKETS = re.compile(r"[][{}]")
_KEY = re.compile(r"\w+(?:\.\w+)*(?=[:= ])")


@dataclass(frozen=True)
class RecipeSource:
    """The content of a recipe's file, or of one override.

    Args:
        name: path of the file, or text of the override.
        content: the keys and values.
        nodes: the YAML node of each value, by dotted key; that of an override is its text as a
            quoted scalar, unless it is a list, a mapping, a quoted scalar or null.
        lines: the line of each dotted key; None for an override.
        problem: error message if the value of an override is not valid YAML, which only string
            options accept; the value in `content` is then None.
    """

    name: str
    content: DictConfig
    nodes: Mapping[str, yaml.Node]
    lines: Mapping[str, int] | None = None
    problem: str | None = None

    def locate(self, key: str) -> str:
        """Return the location of a key for messages: file:line, or the override."""
        if self.lines is None or key not in self.lines:
            return self.name
        return f"{self.name}:{self.lines[key]}"

    def as_dict(self) -> dict[str, Any]:
        """Return the content as a dict."""
        plain: Any = OmegaConf.to_container(self.content, resolve=False)
        return dict(plain)

    def get_text(self, key: str) -> Any:
        """Return the text, or list of texts, of a key; None if there is none."""
        return _get_text(self.nodes[key]) if key in self.nodes else None

    def restore_strings(self, keys: Iterable[str]) -> None:
        """Set these string options to their text in the source.

        YAML reads 007 as 7, 1:30 as 90 and no as False.
        """
        for key in keys:
            text = self.get_text(key)
            if text is None:
                continue
            try:
                OmegaConf.update(self.content, key, text)
            except OmegaConfBaseException as error:  # an invalid ${interpolation}
                raise ValueError(f"{self.locate(key)}: {get_first_line(error)}") from None


def restore_string_options(sources: Sequence[RecipeSource], keys: Collection[str]) -> None:
    """Set the string options of all sources to the text in the source.

    Args:
        sources: the file and the overrides.
        keys: the keys of all string options.

    Raises:
        ValueError: the value of a non-string option is not valid YAML.
    """
    for source in sources:
        if source.problem is not None and not source.nodes.keys() & {*keys}:
            raise ValueError(source.problem)
        source.restore_strings(keys)


def read_recipe_file(path: Path) -> RecipeSource:
    """Read a recipe's file; raise ValueError, with the line, unless it is a YAML mapping."""
    try:
        text = read_limited(path, MAX_RECIPE_BYTES).decode("utf-8")
    except FileNotFoundError:
        hint = did_you_mean(str(path), map(str, path.parent.glob("*.yaml")))
        raise ValueError(f"{path}: no such recipe{hint}") from None
    except IsADirectoryError:
        raise ValueError(f"{path}: is a folder; give a recipe's .yaml file") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text; expected a YAML file") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}; give a recipe's .yaml file") from None
    _check_text(str(path), text)
    try:
        node = yaml.compose(text)
        if node is not None and not isinstance(node, yaml.MappingNode):
            raise ValueError(f"{path}: expected a YAML mapping of `key: value` lines")
        _check_nodes(str(path), node)
        content: Any = OmegaConf.create(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"{path}:{line}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise ValueError(f"{path}: not valid YAML: {get_first_line(error)}") from None
    except RecursionError:
        raise ValueError(f"{path}: is nested deeper than {MAX_DEPTH} levels") from None
    found = {key: (name, value) for key, name, value in _walk(node)}
    renamed = {**RENAMED_KEYS, **RENAMED_KEYS_OF.get(content.get("task"), {})}
    for (section, old), new in renamed.items():
        options = content.get(section)
        if isinstance(options, DictConfig) and old in options and new not in options:
            content[section][new] = content[section].pop(old)
    lines = {key: name.start_mark.line + 1 for key, (name, _) in found.items()}
    return RecipeSource(
        str(path), content, {key: value for key, (_, value) in found.items()}, lines
    )


def _check_text(path: str, text: str) -> None:
    """Raise ValueError for a text with too many nodes or brackets, before YAML is parsed."""
    if text.count(",") + text.count("\n") > MAX_NODES:
        raise ValueError(_TOO_MANY.format(path=path))
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise ValueError(f"{path}: is nested deeper than {MAX_DEPTH} levels")


def _check_nodes(path: str, node: yaml.Node | None) -> None:
    """Raise ValueError for deep nesting or too many nodes; aliases count as copies."""
    count, pending = 0, [(node, 0)]
    while pending:
        node, depth = pending.pop()
        count += 1
        if count > MAX_NODES:
            raise ValueError(_TOO_MANY.format(path=path))
        if depth > MAX_DEPTH:
            raise ValueError(f"{path}: is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, yaml.MappingNode):
            pending += [(child, depth + 1) for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            pending += [(child, depth + 1) for child in node.value]


def parse_overrides(overrides: Sequence[str]) -> list[RecipeSource]:
    """Return each `key.key=value` override as a `RecipeSource`; raise ValueError if malformed."""
    sources = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not all(part.isidentifier() for part in key.split(".")):
            raise ValueError(f"{text}: expected key.key=value, such as training.steps=100")
        if not value:
            raise ValueError(f"{text}: the value is empty; give one, or null for none")
        sources.append(_parse_override(text, key, value))
    return sources


def _parse_override(text: str, key: str, value: str) -> RecipeSource:
    """Return the source of one override; record invalid YAML in `problem`."""
    problem = None
    try:
        node, content = yaml.compose(value), OmegaConf.from_dotlist([text])
        if node is None:
            raise yaml.MarkedYAMLError(problem="the value is a comment")
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as error:
        reason = getattr(error, "problem", None) or get_first_line(error)
        problem = f"{text}: not valid YAML: {reason}; put quotes around the value"
        node, content = None, OmegaConf.from_dotlist([f"{key}=null"])
    nodes = {inner: value for inner, _, value in _walk(node, f"{key}.")}
    if value not in ("null", "~") and not _is_delimited(node):
        node = yaml.ScalarNode("tag:yaml.org,2002:str", value, style="'")
    return RecipeSource(text, content, {key: node, **nodes}, problem=problem)


def _is_delimited(node: yaml.Node | None) -> bool:
    """Return whether a value is a list in brackets, a mapping in braces or a scalar in quotes."""
    if isinstance(node, yaml.ScalarNode):
        return node.style in ("'", '"')
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def find_text_keys(options: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of a dataclass whose values are strings or lists of strings."""
    hints = get_type_hints(options)
    for option in fields(options):
        kinds = {hints[option.name], *get_args(hints[option.name])}
        origins = {get_origin(kind) for kind in kinds}
        section = next(filter(is_dataclass, kinds), None)
        if section is not None:
            yield from find_text_keys(section, f"{prefix}{option.name}.")
            continue
        is_text = str in kinds and not kinds & {bool, int, float} and dict not in origins
        if is_text or Literal in origins:
            yield f"{prefix}{option.name}"


@contextmanager
def locate_errors(sources: Sequence[RecipeSource], default: str = "") -> Iterator[None]:
    """Add the location of the key with which the message of a ValueError begins.

    Args:
        sources: the file and the overrides, in order.
        default: start of the message if the key is in none of them.
    """
    try:
        yield
    except ValueError as error:
        message = get_first_line(error)
        match = _KEY.match(message)
        keys = (match[0], f"search.{match[0]}") if match else ()  # SearchOptions omits the section
        found = (
            (source, key) for source in reversed(sources) for key in keys if key in source.nodes
        )
        source, key = next(found, (None, ""))
        location = default if source is None else f"{source.locate(key)}: "
        if message.startswith(location.removesuffix(": ")):
            location = ""
        raise ValueError(f"{location}{message}") from error


def _walk(node: yaml.Node | None, prefix: str = "") -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Yield the dotted key of each entry of a mapping, and the nodes of its name and value."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield f"{prefix}{name.value}", name, value
            yield from _walk(value, f"{prefix}{name.value}.")


def _get_text(node: yaml.Node) -> Any:
    """Return the text of a scalar, or the texts of a list; None for null and for mappings."""
    if isinstance(node, yaml.SequenceNode):
        return [_get_text(item) for item in node.value]
    if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
        return None
    return node.value
