"""Write a BERT-base with random weights, or load it; used by `public_loading.py`.

    python transformers_loading.py write FOLDER
    python transformers_loading.py load FOLDER

`load` prints the seconds and the peak memory in MiB above that of the imports. Every weight is read
once, because `transformers` maps the file and would not read it otherwise.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from transformers import BertConfig, BertModel


def read_status(key: str) -> float:
    """Return a size in /proc/self/status in MiB: VmRSS is now, VmHWM is the peak."""
    with open("/proc/self/status", encoding="utf-8") as file:
        values = dict(line.split(":", 1) for line in file)
    return int(values[key].split()[0]) / 1024


def load(folder: str) -> None:
    idle = read_status("VmRSS")
    start = time.perf_counter()
    model = BertModel.from_pretrained(folder, local_files_only=True)
    total = sum(float(weight.sum()) for weight in model.parameters())
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, read_status("VmHWM") - idle, total]))


def main() -> None:
    work, folder = sys.argv[1:]
    torch.set_grad_enabled(False)
    if work == "write":
        BertModel(BertConfig()).save_pretrained(folder)
    else:
        load(folder)


if __name__ == "__main__":
    main()
