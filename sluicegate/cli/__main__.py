"""``python -m sluicegate.cli``, and the script ``sluicegate``."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the command line in a process that may have been started without some of its three streams.

    Until the modules of the command are imported, which takes longer than some commands, Ctrl-C ends the process at
    once: an exception would be printed from anywhere within Python's import, or be lost there.
    """
    _open_missing_streams()
    former = signal.getsignal(signal.SIGINT)
    if former is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sluicegate.cli import app

    app.import_command()
    signal.signal(signal.SIGINT, former)
    app.main()


def _open_missing_streams() -> None:
    """Open ``/dev/null`` for each closed stream: the next file would get its number, and whatever is printed."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


if __name__ == "__main__":
    main()
