"""Predict the lines of many files with an exported model, on the workers of a Ray cluster.

    attention-zoo export rnnsearch_small.dates_en_fr export
    python -m venv ray && ray/bin/pip install -r examples/bulk_inference/requirements.txt
    ray/bin/python examples/bulk_inference/predict.py export predictions texts/*.txt --workers 2

Each file has one text per line, in UTF-8. `predictions/NAME.jsonl` has one JSON object per line of
NAME, with the outputs of the export's default signature. A file of predictions is complete or
absent (a file whose name begins with a dot is a part of one). After an interruption, the same
command computes the absent ones.

With `--address auto`, the script uses the Ray cluster that this machine belongs to; export, texts
and predictions must be on storage that all machines share. It has not been run on a cluster. The
workers do not need attention_zoo.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

FIELDS = ("text", "scores", "ok", "error")


class Predictor:
    """Predicts the lines of a file. Each worker loads the export once.

    Args:
        export: folder of a SavedModel.
        folder: folder of the predictions.
        fields: names of the outputs that are written.
        batch_size: number of lines per call of the model.
        threads: number of threads of TensorFlow; 0 for as many as cores.
    """

    def __init__(
        self, export: str, folder: str, fields: Sequence[str], batch_size: int, threads: int
    ) -> None:
        import tensorflow as tf

        if threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
        self._module = tf.saved_model.load(export)  # the signature does not keep it alive
        self._signature = self._module.signatures["serving_default"]
        self._folder, self._fields, self._batch_size = Path(folder), fields, batch_size

    def __call__(self, row: dict[str, str]) -> dict[str, Any]:
        """Predict the lines of a file.

        Args:
            row: `path` of the file.

        Returns:
            `path`; `lines`, the number of lines; `error`, why there are no predictions, or "".
        """
        path = row["path"]
        final = get_output_path(self._folder, path)
        unfinished = final.with_name(f".{final.name}.{os.getpid()}")
        try:
            count = self._predict_file(path, unfinished)
            os.replace(unfinished, final)
        except (OSError, ValueError) as error:
            unfinished.unlink(missing_ok=True)
            return {"path": path, "lines": 0, "error": str(error)}
        return {"path": path, "lines": count, "error": ""}

    def _predict_file(self, path: str, output: Path) -> int:
        """Write the predictions for a file; return its number of lines."""
        count = 0
        with open(path, encoding="utf-8-sig") as texts, output.open("w", encoding="utf-8") as file:
            lines = (line.rstrip("\n") for line in texts)
            while batch := list(islice(lines, self._batch_size)):
                for prediction in self._predict(batch):
                    file.write(json.dumps(prediction, ensure_ascii=False) + "\n")
                count += len(batch)
        return count

    def _predict(self, texts: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the outputs for each text."""
        import tensorflow as tf

        outputs = self._signature(text=tf.constant(texts))
        arrays = {field: outputs[field].numpy() for field in self._fields}
        for row in range(len(texts)):
            yield {field: to_json(array[row]) for field, array in arrays.items()}


def to_json(value: Any) -> Any:
    """Convert an array, or a value of it, to JSON values; numbers that are not finite to None."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if hasattr(value, "tolist"):
        return to_json(value.tolist())
    return [*map(to_json, value)] if isinstance(value, list) else value


def get_output_path(folder: Path, path: str) -> Path:
    """Return the path of the predictions for a file."""
    return folder / f"{Path(path).name}.jsonl"


def list_remaining(folder: Path, paths: Sequence[str]) -> list[str]:
    """Return the files without predictions, as absolute paths.

    Raises:
        ValueError: a file is missing, or two files have the same name.
    """
    by_name: dict[Path, str] = {}
    for path in map(os.path.abspath, paths):
        if not os.path.isfile(path):
            raise ValueError(f"{path}: no such file")
        output = get_output_path(folder, path)
        if by_name.setdefault(output, path) != path:
            raise ValueError(f"{path} and {by_name[output]} have the same name; rename one of them")
    return [path for output, path in by_name.items() if not output.exists()]


def check_export(export: str, fields: Sequence[str]) -> None:
    """Raise ValueError unless an export takes texts and has these outputs."""
    import tensorflow as tf

    module = tf.saved_model.load(export)
    signature = module.signatures["serving_default"]
    inputs = sorted(signature.structured_input_signature[1])
    if inputs != ["text"]:
        raise ValueError(f"{export} must be the export of a task with texts; it takes {inputs}")
    outputs = sorted(signature.structured_outputs)
    if unknown := [field for field in fields if field not in outputs]:
        raise ValueError(f"{export} has no output {unknown[0]!r}; its outputs are {outputs}")


def predict_files(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Predict the remaining files; yield what `Predictor` returns for each."""
    folder, export = Path(options.output).absolute(), os.path.abspath(options.export)
    fields = options.fields.split(",")
    rows = [{"path": path} for path in list_remaining(folder, options.files)]
    if not rows:
        return
    check_export(export, fields)
    folder.mkdir(parents=True, exist_ok=True)
    threads = 1 if options.workers else 0
    arguments = export, str(folder), fields, options.batch_size, threads
    if not options.workers:
        yield from map(Predictor(*arguments), rows)
        return
    import ray

    ray.init(address=options.address, logging_level="WARNING")
    predictions = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        Predictor,
        fn_constructor_args=arguments,
        compute=ray.data.ActorPoolStrategy(size=options.workers),
        num_cpus=1,
    )
    yield from predictions.iter_rows()


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", help="folder of the export")
    parser.add_argument("output", help="folder of the predictions")
    parser.add_argument("files", nargs="+", help="files with one text per line")
    parser.add_argument("--workers", type=int, default=2, help="0: this process, without Ray")
    parser.add_argument("--address", default="local", help="address of a Ray cluster, or auto")
    parser.add_argument("--batch-size", type=int, default=64, help="lines per call of the model")
    parser.add_argument("--fields", default=",".join(FIELDS), help="outputs, separated by commas")
    options = parser.parse_args()
    for name, least in (("workers", 0), ("batch_size", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}")
    return options


def main() -> None:
    num_failed = 0
    try:
        for result in predict_files(parse_options()):
            num_failed += bool(result["error"])
            outcome = result["error"] or f"{result['lines']} lines"
            print(f"{result['path']}: {outcome}", flush=True)
    except (ValueError, OSError) as error:
        sys.exit(f"predict.py: {error}")
    if num_failed:
        sys.exit(f"predict.py: {num_failed} files have no predictions, see above")


if __name__ == "__main__":
    main()
