"""The command `protoseg`, with the same flags and answers as the binary."""

from __future__ import annotations

import signal
import sys

from . import _protoseg


def main() -> int:
    """Carries out the command that this process was started with."""
    # Python only notes Ctrl-C, and nobody looks. Commands that save their work listen for it themselves.
    # In the background of a shell it is ignored, and stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _protoseg.main(["protoseg", *sys.argv[1:]])
