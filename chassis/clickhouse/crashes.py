"""Ends the process at once when it crashes.

The embedded engine handles crash signals to write a report first; that takes minutes or never ends, and meanwhile the
process serves nothing and is not restarted. Python's own crash report takes no time.
"""

import faulthandler
import signal
import threading
from typing import Final

_CRASH_SIGNALS: Final = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
)
_STDERR: Final = 2


def abort_on_crash() -> None:
    """From now on a crash writes the Python stacks of all threads to standard error, then takes the default action.

    Call it once the engine is open, which it stays: it installs its handlers whenever it is opened. Only the main
    thread can set signal handlers; in another thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    faulthandler.disable()
    for number in _CRASH_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable(_STDERR)
