"""How a worker makes batches of the requests that wait."""

import threading
import time

from domainbert.service.worker import LONG_CHARACTERS, Worker


def test_free_slots_share_the_requests_that_wait(start):
    task = start().task
    queue_lengths = [0]
    worker = Worker(task, queue_lengths.append)
    long = "sleep 1 " + "x" * LONG_CHARACTERS  # holds both slots

    def send(text):
        thread = threading.Thread(
            target=worker.score, args=([{"text": text}], 60.0)
        )
        thread.start()
        return thread

    threads = [send(long)]
    while not task.running:
        time.sleep(0.01)
    threads += [send("sleep 0.1") for _ in range(4)]
    for thread in threads:
        thread.join()
    assert max(queue_lengths) == 4
    assert task.batches[1:] == [1, 2, 2]  # after the self-test
