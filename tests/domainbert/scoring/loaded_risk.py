"""A readmission task that leaves a file in a folder each time it is unpickled."""

import os
import time
from pathlib import Path

from clinical.risk.task import ReadmissionTask


class LoadedRisk(ReadmissionTask):
    def __init__(self, model, folder):
        super().__init__(model)
        self.folder = folder

    def __setstate__(self, state):
        self.__dict__.update(state)
        (Path(self.folder) / f"{os.getpid()}-{time.time_ns()}").touch()
