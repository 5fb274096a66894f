"""`python -m attention_zoo`, the same program as `attention-zoo`."""

import sys

from attention_zoo.cli import main

if __name__ == "__main__":
    sys.exit(main())
