"""Places of a graph's nodes: columns from landing to gold, and in each an order in which few edges cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sluicegate.monitor.views.flow_graph import Edge, Graph, Node

WIDTH, HEIGHT = 206, 92
"""Size of a table's box."""

LOW = 44
"""Height of a landing folder's, a view's and a quarantine's box."""

GAP_X, GAP_Y, TOP = 42, 20, 34

SWEEPS = 4
"""How often the order of all columns is improved: more changes hardly anything."""

# What an edge leads through in a column where it has no node.
_LANE = "lane"

_HEIGHTS = {"bronze": HEIGHT, "silver": HEIGHT, "gold": HEIGHT, _LANE: 2}

_LAYERS = {"landing": "Landing", "bronze": "Bronze", "silver": "Silver", "gold": "Gold"}


@dataclass(frozen=True)
class Box:
    """A node with its place."""

    node: Node
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Curve:
    """An edge as the path of a curve."""

    edge: Edge
    path: str


@dataclass(frozen=True)
class Band:
    """A layer: the columns of its tables."""

    name: str
    x: float
    width: float


@dataclass(frozen=True)
class Placed:
    """A graph with all places."""

    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]
    bands: tuple[Band, ...]
    width: float
    height: float


def placed(graph: Graph) -> Placed:
    """Places of a graph's nodes and edges."""
    main = [node for node in graph.nodes if node.kind != "quarantine"]
    beneath = {node.table: node for node in graph.nodes if node.kind == "quarantine"}
    column = _columns(main, graph.edges)
    columns: list[list[Node]] = [[] for _ in range(max(column.values(), default=0) + 1)]
    for node in main:
        columns[column[node.key]].append(node)
    chains = {edge: _chain(edge, column, columns) for edge in graph.edges if edge.kind != "quarantine"}
    _ordered(columns, [pair for chain in chains.values() for pair in pairwise(chain)])
    boxes: dict[str, Box] = {}
    for number, nodes in enumerate(columns):
        y = float(TOP)
        for node in nodes:
            x, tall = number * (WIDTH + GAP_X), _HEIGHTS.get(node.kind, LOW)
            boxes[node.key] = Box(node, x, y, WIDTH, tall)
            y += tall
            if node.kind == "silver" and node.table in beneath:
                of = beneath[node.table]
                boxes[of.key] = Box(of, x + 18, y + 8, WIDTH - 18, LOW)
                y += LOW + 8
            y += GAP_Y
    height = max((box.y + box.height for box in boxes.values()), default=0.0)
    boxes = _centred(boxes, columns, beneath, height)
    curves = [Curve(edge, _path([boxes[key] for key in chain])) for edge, chain in chains.items() if len(chain) > 1]
    curves += [
        Curve(edge, _down(boxes, edge)) for edge in graph.edges if edge.kind == "quarantine" and edge.target in boxes
    ]
    width = len(columns) * (WIDTH + GAP_X) - GAP_X
    shown = tuple(box for box in boxes.values() if box.node.kind != _LANE)
    return Placed(shown, tuple(curves), tuple(_bands(columns)), width, height + 6)


def _chain(edge: Edge, column: dict[str, int], columns: list[list[Node]]) -> list[str]:
    """Keys of the nodes that an edge leads through: a lane in each column between its ends, where no box is."""
    if edge.source not in column or edge.target not in column:
        return []
    found = [edge.source]
    for number in range(column[edge.source] + 1, column[edge.target]):
        lane = Node(f"{edge.source} to {edge.target}", _LANE, f"{edge.source} to {edge.target} {number}")
        columns[number].append(lane)
        found.append(lane.key)
    return [*found, edge.target]


def _columns(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, int]:
    """Column of each node: after all that it reads, and after all of the layers before its own."""
    reads: dict[str, list[str]] = {}
    for edge in edges:
        reads.setdefault(edge.target, []).append(edge.source)
    found: dict[str, int] = {}
    first = 0
    for kind in (("landing",), ("bronze",), ("silver",), ("gold",)):
        of_layer = [
            node
            for node in nodes
            if node.kind in kind or (node.kind == "view" and kind == _of_view(node, nodes, edges))
        ]
        for _ in of_layer:  # as often as the longest chain can be
            for node in of_layer:
                before = [found[read] + 1 for read in reads.get(node.key, ()) if read in found]
                found[node.key] = max([first, *before])
        first = max([first, *(found[node.key] + 1 for node in of_layer)])
    return found


def _of_view(view: Node, nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[str]:
    """The layer in whose columns a view stands: the first of the tables that read it."""
    kinds = {node.key: node.kind for node in nodes}
    seen, open_ = set[str](), [view.key]
    readers = set[str]()
    while open_:
        name = open_.pop()
        for edge in edges:
            if edge.source == name and edge.target not in seen:
                seen.add(edge.target)
                readers.add(kinds.get(edge.target, ""))
                if kinds.get(edge.target) == "view":
                    open_.append(edge.target)
    return ("silver",) if "silver" in readers else ("gold",)


def _ordered(columns: list[list[Node]], edges: Sequence[tuple[str, str]]) -> None:
    """Sorts each column by the middle of the neighbours of its nodes, from the left and back."""
    near: dict[str, list[str]] = {}
    for source, target in edges:
        near.setdefault(source, []).append(target)
        near.setdefault(target, []).append(source)
    for sweep in range(SWEEPS):
        place = {node.key: (number + 0.5) / len(nodes) for nodes in columns for number, node in enumerate(nodes)}
        for nodes in columns if sweep % 2 == 0 else reversed(columns):

            def middle(node: Node, place: dict[str, float] = place) -> float:
                others = [place[name] for name in near.get(node.key, ()) if name in place]
                return sum(others) / len(others) if others else place[node.key]

            nodes.sort(key=middle)
            place |= {node.key: (number + 0.5) / len(nodes) for number, node in enumerate(nodes)}


def _centred(
    boxes: dict[str, Box], columns: list[list[Node]], beneath: dict[str, Node], height: float
) -> dict[str, Box]:
    """Boxes with each column in the middle of the height."""
    moved = dict(boxes)
    for nodes in columns:
        keys = [node.key for node in nodes]
        keys += [beneath[node.table].key for node in nodes if node.kind == "silver" and node.table in beneath]
        end = max((boxes[key].y + boxes[key].height for key in keys), default=height)
        for key in keys:
            box = boxes[key]
            moved[key] = Box(box.node, box.x, box.y + (height - end) / 2, box.width, box.height)
    return moved


def _path(chain: Sequence[Box]) -> str:
    """Curve from the right side of a box to the left side of another, straight through the lanes between them."""
    first = chain[0]
    x, y = first.x + first.width, first.y + first.height / 2
    parts = [f"M{x:.1f} {y:.1f}"]
    for box in chain[1:]:
        to, middle = box.x, box.y + box.height / 2
        bend = (to - x) / 2
        parts.append(f"C{x + bend:.1f} {y:.1f} {to - bend:.1f} {middle:.1f} {to:.1f} {middle:.1f}")
        if box.node.kind == _LANE:
            parts.append(f"H{box.x + box.width:.1f}")
        x, y = box.x + box.width, middle
    return "".join(parts)


def _down(boxes: dict[str, Box], edge: Edge) -> str:
    source, target = boxes[edge.source], boxes[edge.target]
    x, y = source.x + 8, source.y + source.height
    return f"M{x:.1f} {y:.1f}V{target.y + target.height / 2:.1f}H{target.x:.1f}"


def _bands(columns: list[list[Node]]) -> list[Band]:
    found: list[Band] = []
    for number, nodes in enumerate(columns):
        kinds = [node.kind for node in nodes if node.kind in _LAYERS]
        name = _LAYERS[kinds[0]] if kinds else (found[-1].name if found else "")
        x = number * (WIDTH + GAP_X)
        if found and found[-1].name == name:
            last = found.pop()
            found.append(Band(name, last.x, x + WIDTH - last.x))
        else:
            found.append(Band(name, x, WIDTH))
    return found
