"""What every test may count on."""

import signal

# a shell that runs the tests in the background has them ignore Ctrl-C, which some of them send to themselves
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
