"""`python -m protoseg` is the command `protoseg`."""

import sys

from ._command import main

sys.exit(main())
