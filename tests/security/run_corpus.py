"""Run the whole corpus in this process, and print a JSON line with the outcome of each case.

python -m tests.security.run_corpus FOLDER
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from tests.security import hostile_checkpoints, hostile_data, hostile_models
from tests.security.corpus import CASES, run_case, save_task

MODULES = (hostile_models, hostile_data, hostile_checkpoints)


def main(folder: Path) -> None:
    """Run all cases in subfolders of a folder."""
    saved = save_task(folder / "task")
    for number, (name, case) in enumerate(CASES.items()):
        case_folder = folder / str(number)
        case_folder.mkdir()
        try:
            outcome = {"case": name, **asdict(run_case(case, case_folder, saved))}
        except BaseException as error:
            outcome = {"case": name, "error": repr(error), "trace": traceback.format_exc()}
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
