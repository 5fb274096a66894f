"""Alignment error rate of the attention of translators on `dates`, compared with word aligners.

    python benchmarks/word_alignment.py models/translation/rnnsearch_small.dates_en_fr \
        models/translation/luong_small.dates_en_fr [...] \
        --eflomal-python .venv-eflomal/bin/python [--size 1000] [--dry-run]

The corpus has gold word alignments (`data.generate_aligned_dates`). The model is called with the
reference (forced decoding), and each target token is linked to the source token of its maximum
weight. Links of tokens are then mapped to links of words. IBM Model 1 (below) and eflomal are
trained on the words of the training pairs and the test pairs.

Function words have no gold links. The alignment error rate (AER) of "linked words" is limited to
target words with a gold link, that of "values" to the words of dates, times and quantities: these
vary from sentence to sentence. The other words of a clause always occur together, so their
co-occurrence does not align them; only their order does. In the AER of "all words", every link of a
function word is an error. Attention always links a target token; the word aligners may leave a word
without a link.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from side_by_side import HERE, write_section

import attention_zoo as az
from attention_zoo import zoo
from attention_zoo.data.tokenizers.vocabulary import START
from attention_zoo.inspection.record import join_decoder_steps

Links = list[set[tuple[int, int]]]
Pairs = Sequence[az.data.AlignedPair]
BATCH = 50


def split_words(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def score(pairs: Pairs, alignments: Links) -> list[float]:
    """Return AER, precision and recall of linked words, and AER of values and of all words."""
    lengths = [(len(pair.target_words), len(pair.source_words)) for pair in pairs]

    def rate(positions: Sequence[Container[int]]) -> Any:
        """Return the scores of the links of these target positions of each pair."""
        chosen = [
            [{(t, s) for t, s in links if t in rows} for links in (found, pair.sure, pair.possible)]
            for found, pair, rows in zip(alignments, pairs, positions, strict=True)
        ]
        return az.inspection.alignment_error_rate(*map(list, zip(*chosen, strict=True)), lengths)

    linked = [{t for t, _ in pair.possible} for pair in pairs]
    values = [rows & pair.target_values for rows, pair in zip(linked, pairs, strict=True)]
    everything = [range(length) for length, _ in lengths]
    return [*rate(linked), rate(values).aer, rate(everything).aer]


def align(task: Any, pairs: Pairs) -> dict[str, Links]:
    """Return the word links of each pair, by cross-attention layer and head of a translator."""
    tokenizers = task.source_tokenizer, task.target_tokenizer
    sources = tokenizers[0].encode([pair.source for pair in pairs])
    targets = tokenizers[1].encode([pair.target for pair in pairs])
    alignments: dict[str, Links] = {}
    for start in range(0, len(pairs), BATCH):
        batch = slice(start, start + BATCH)
        target = pad([[START, *ids] for ids in targets[batch]])
        source = pad(sources[batch])
        if source.shape == target.shape:  # so that the shape below is that of cross-attention only
            source = np.pad(source, ((0, 0), (0, 1)))
        with az.inspection.record(task.model) as recorded:
            task.model({"source": source, "target": target}, training=False)
        for path, records in recorded.items():
            (steps,) = join_decoder_steps(records)
            if steps.weights.shape[2:] != (target.shape[1], source.shape[1]):
                continue
            for head, rows in enumerate(np.moveaxis(steps.weights, 1, 0)):
                links = alignments.setdefault(f"{path}, head {head + 1}", [])
                links += map(link_words, rows, pairs[batch], [tokenizers] * len(rows))
    return alignments


def link_words(weights: NDArray[Any], pair: Any, tokenizers: Any) -> set[tuple[int, int]]:
    """Return the word links of a pair, from weights of tokens `(T, S)` that may include padding."""
    source_ids, target_ids = (
        az.inspection.find_word_ids(tokenizer.offsets(text), words)
        for tokenizer, text, words in (
            (tokenizers[0], pair.source, pair.source_words),
            (tokenizers[1], pair.target, pair.target_words),
        )
    )
    links = az.inspection.links_from_weights(weights[: len(target_ids), : len(source_ids)])
    words = {(target_ids[t], source_ids[s]) for t, s in links}
    return {(t, s) for t, s in words if t is not None and s is not None}


def pad(rows: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    padded = np.zeros((len(rows), max(map(len, rows))), "int32")
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def align_with_ibm_1(pairs: Sequence[tuple[list[str], list[str]]], iterations: int = 10) -> Links:
    """Return the alignments of IBM Model 1, trained on the pairs by expectation maximization.

    `t(f | e)` is the probability that a source word e, or the empty (NULL) word, is translated as f
    (Brown et al. 1993, J93-2003). Each target word is linked to its most probable source word, the
    first of several, and has no link if that is the empty word.
    """
    source_ids: dict[str, int] = {"": 0}
    target_ids: dict[str, int] = {}
    grids, num_targets = [], 0  # all combinations of the words of a pair, (3, T * (S + 1))
    for sources, targets in pairs:
        given = [0, *(source_ids.setdefault(word, len(source_ids)) for word in sources)]
        words = [target_ids.setdefault(word, len(target_ids)) for word in targets]
        position = np.arange(num_targets, num_targets + len(words), dtype="int32")
        columns = np.repeat(position, len(given)), np.repeat(words, len(given))
        grids.append(np.array([*columns, np.tile(given, len(words))], "int32"))
        num_targets += len(words)
    positions, target, source = np.concatenate(grids, axis=1)
    entries = target * len(source_ids) + source
    probability = np.ones(len(target_ids) * len(source_ids))
    for _ in range(iterations):
        weights = probability[entries]
        shares = weights / np.bincount(positions, weights)[positions]
        counts = np.bincount(entries, shares, len(probability)).reshape(len(target_ids), -1)
        probability = (counts / counts.sum(0)).ravel()
    weights, start = probability[entries], 0
    links: Links = []
    for sources, targets in pairs:
        end = start + len(targets) * (len(sources) + 1)
        best = weights[start:end].reshape(len(targets), -1).argmax(1)
        links.append({(t, int(s) - 1) for t, s in enumerate(best) if s})
        start = end
    return links


def align_with_eflomal(pairs: Sequence[tuple[list[str], list[str]]], python: str) -> Links:
    """Return the alignments of eflomal, which runs in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "pairs.json", Path(folder) / "links.json"
        source.write_text(json.dumps(pairs), "utf-8")
        command = [python, str(HERE / "peers" / "eflomal_alignment.py"), str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"eflomal failed:\n{done.stderr[-2000:]}")
        return [{(t, s) for t, s in links} for links in json.loads(target.read_text("utf-8"))]


def evaluate_model(folder: Path, test: Pairs, validation: Pairs) -> tuple[str, list[float]]:
    """Return the name and scores of a translator: of its head with the lowest validation AER."""
    task = az.load(folder)
    try:
        heads = align(task, test)
    except ValueError as error:  # a model without attention
        sys.exit(f"{folder}: {error}")
    if len(heads) == 1:
        return folder.name, score(test, *heads.values())
    on_validation = align(task, validation)
    best = min(on_validation, key=lambda head: score(validation, on_validation[head])[0])
    return f"{folder.name}, {best}", score(test, heads[best])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folders", type=Path, nargs="+", help="run folders or zoo entries of one corpus"
    )
    parser.add_argument("--eflomal-python", help="Python interpreter with eflomal")
    parser.add_argument("--size", type=int, default=1000, help="number of test pairs")
    parser.add_argument("--dry-run", action="store_true", help="print, but do not write results.md")
    options = parser.parse_args()
    data = az.training.read_recipe(zoo.find_recipe_of(options.folders[0])).data
    if data.corpus != "dates":
        parser.error(f"{options.folders[0]}: data.corpus must be dates, got {data.corpus}")
    names = {
        name: getattr(data, name) for name in ("source", "target", "min_phrases", "max_phrases")
    }
    test, validation, train = (
        az.data.generate_aligned_dates(size, split=split, seed=data.seed, **names)
        for split, size in (("test", options.size), ("validation", 300), ("train", data.size))
    )
    rows: list[tuple[str, list[float]]] = []
    for folder in options.folders:
        rows.append(evaluate_model(folder, test, validation))
    words = [
        (split_words(pair.source, pair.source_words), split_words(pair.target, pair.target_words))
        for pair in [*test, *train]
    ]
    aligners = {"IBM Model 1": align_with_ibm_1(words)}
    if options.eflomal_python:
        aligners["eflomal"] = align_with_eflomal(words, options.eflomal_python)
    rows += [(name, score(test, links[: len(test)])) for name, links in aligners.items()]
    lines = ["| aligner | AER, linked words | precision | recall | AER, values | AER, all words |"]
    lines += ["|---|---|---|---|---|---|"]
    lines += [
        f"| {name} | " + " | ".join(f"{x:.3f}" for x in scores) + " |" for name, scores in rows
    ]
    lines += [
        "",
        f"{len(test):,} test pairs {data.source}-{data.target} of `dates`; one link for each target"
        " token, at most one for each target word of the word aligners, which are trained on"
        f" {len(train):,} training pairs and the test pairs. seq2seq models have no attention.",
    ]
    write_section(f"Word alignment, {data.source}-{data.target}", lines, options.dry_run)


if __name__ == "__main__":
    main()
