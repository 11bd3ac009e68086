"""A crash ends the process at once.

The embedded engine catches the signals of a crash to write a report first; it takes minutes for that, or never ends,
and meanwhile nobody is served and nobody starts the process again. What Python can tell of a crash takes no time.
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
    """From here on, in this process: the Python stacks of all threads on standard error, then the default action.

    To be called when the engine is open, which it stays: it takes the signals whenever it begins. Only the main thread
    can do this; in another nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    faulthandler.disable()
    for number in _CRASH_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable(_STDERR)
