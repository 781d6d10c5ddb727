"""Labels beside points: placed one by one so that none overlap, or left out."""

from __future__ import annotations

import numpy as np

# Positions of a label: right, left, above, below, then the corners.
_DIRECTIONS = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)], dtype=float
)
_LINE_STEPS = 8


def place_labels(
    points: np.ndarray,
    sizes: np.ndarray,
    *,
    page: tuple[float, float],
    gap: float,
    rings: int,
    crowding: int,
    most: int,
) -> np.ndarray:
    """Choose a place beside each point for its label, or none.

    Points far apart are labelled first, so that every region gets some labels. Each label takes
    the position that covers the fewest points, the nearest of equals. No two labels overlap, no
    line from a point to its label crosses another label, and no label leaves the page. All
    lengths have the same unit, such as typographic points.

    Args:
        points: shape (n, 2), with the page's lower left corner at (0, 0).
        sizes: width and height of each label, shape (n, 2).
        page: its width and height.
        gap: between a point's centre and a label beside it.
        rings: distances to try, in steps of the label's height; 1 is directly beside the point.
        crowding: other points that a label may cover.
        most: maximum number of labels.

    Returns:
        Lower left corners, shape (n, 2); NaN where a label is left out.
    """
    corners = np.full((len(points), 2), np.nan)
    dots = np.hstack([points - gap / 2, points + gap / 2])  # a point is as wide as the gap
    placed = np.empty((0, 4))
    for i in spread_order(points):
        if len(placed) >= most:
            break
        far = gap + sizes[i, 1] * np.arange(rings).repeat(len(_DIRECTIONS))[:, None]
        ways = np.tile(_DIRECTIONS, (rings, 1))
        low = points[i] + far * ways + (ways - 1) / 2 * sizes[i]
        boxes = np.hstack([low, low + sizes[i]])
        inside = (low >= 0).all(axis=1) & (boxes[:, 2:] <= page).all(axis=1)
        lines = leaders(points[i], boxes)
        free = inside & ~_overlaps(boxes, placed).any(axis=1)
        free &= ~_overlaps(lines.reshape(-1, 4), placed).any(axis=1).reshape(len(boxes), -1).any(1)
        covered = np.where(free, _overlaps(boxes, dots).sum(axis=1), np.inf)
        best = int(covered.argmin())
        if covered[best] <= crowding:
            corners[i] = low[best]
            placed = np.vstack([placed, boxes[best]])
            if best >= len(_DIRECTIONS):
                dots = np.vstack([dots, lines[best]])
    return corners


def leaders(point: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """The line from a point to the nearest edge of each box, as tiny boxes along it.

    Returns:
        Shape (boxes, steps, 4), as (left, bottom, right, top).
    """
    steps = np.linspace(0.1, 0.9, _LINE_STEPS)[:, None]
    ends = np.clip(point, boxes[:, None, :2], boxes[:, None, 2:])
    along = point + steps * (ends - point)
    return np.concatenate([along - 0.1, along + 0.1], axis=2)


def spread_order(points: np.ndarray) -> np.ndarray:
    """Order of points, each as far as possible from those before it, shape (n,)."""
    order = np.zeros(len(points), dtype=np.int64)
    far = np.full(len(points), np.inf)
    for position in range(1, len(points)):
        far = np.minimum(far, ((points - points[order[position - 1]]) ** 2).sum(axis=1))
        far[order[:position]] = -1
        order[position] = int(far.argmax())
    return order


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether boxes (left, bottom, right, top) share any area, shape (boxes, others)."""
    a, b = boxes[:, None], others[None]
    apart = (a[..., :2] >= b[..., 2:]) | (b[..., :2] >= a[..., 2:])
    return np.logical_not(apart.any(axis=2))
