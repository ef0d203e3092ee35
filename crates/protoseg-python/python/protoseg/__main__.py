"""`python -m protoseg` is the command `protoseg`."""

import sys

from ._command import main

if __name__ == "__main__":
    sys.exit(main())
