"""Intervals, calibration and the base of all figures."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""An array of numbers, of any shape."""
