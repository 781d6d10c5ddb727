"""Whether time grows with the size of the input and no faster."""

import time


def assert_linear_time(prepare, count):
    """Four times the input takes less than twelve times the processor time.

    `prepare(count)` gives the call to time. A quadratic step takes sixteen times as long.
    """

    def seconds(size):
        call = prepare(size)
        start = time.process_time()
        call()
        return time.process_time() - start

    seconds(100)
    assert seconds(4 * count) < 12 * seconds(count) + 0.5
