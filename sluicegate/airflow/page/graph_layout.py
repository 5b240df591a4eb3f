"""Places of a graph's nodes: columns from landing to gold, and in each an order in which few edges cross."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sluicegate.dashboard.flow_graph import Edge, Graph, Node

WIDTH, HEIGHT = 206, 128
"""Size of a table's box."""

LOW = 48
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


def place_graph(graph: Graph) -> Placed:
    """Place the nodes and edges of a graph."""
    tables = [node for node in graph.nodes if node.kind != "quarantine"]
    quarantines = {node.table: node for node in graph.nodes if node.kind == "quarantine"}
    column = _columns(tables, graph.edges)
    columns: list[list[Node]] = [[] for _ in range(max(column.values(), default=0) + 1)]
    for node in tables:
        columns[column[node.key]].append(node)
    chains = {edge: _chain(edge, column, columns) for edge in graph.edges if edge.kind != "quarantine"}
    _order_columns(columns, [pair for chain in chains.values() for pair in pairwise(chain)])
    boxes, height = _boxes(columns, quarantines)
    return Placed(
        boxes=tuple(box for box in boxes.values() if box.node.kind != _LANE),
        curves=tuple(_curves(graph.edges, chains, boxes)),
        bands=tuple(_bands(columns)),
        width=len(columns) * (WIDTH + GAP_X) - GAP_X,
        height=height + 6,
    )


def _boxes(columns: Sequence[Sequence[Node]], quarantines: dict[str, Node]) -> tuple[dict[str, Box], float]:
    """Return boxes by the keys of their nodes, columns centred, and the height of the highest column."""
    stacks = [_stack(nodes, quarantines, number * (WIDTH + GAP_X)) for number, nodes in enumerate(columns)]
    height = max(map(_end, stacks), default=0.0)
    return {box.node.key: box for stack in stacks for box in _centre_boxes(stack, height)}, height


def _stack(nodes: Sequence[Node], quarantines: dict[str, Node], x: float) -> list[Box]:
    """Stack the boxes of a column from the top down, each quarantine beneath its table."""
    stack: list[Box] = []
    y = float(TOP)
    for node in nodes:
        height = _HEIGHTS.get(node.kind, LOW)
        stack.append(Box(node, x, y, WIDTH, height))
        y += height
        if node.kind == "silver" and node.table in quarantines:
            stack.append(Box(quarantines[node.table], x + 18, y + 8, WIDTH - 18, LOW))
            y += LOW + 8
        y += GAP_Y
    return stack


def _end(stack: Sequence[Box]) -> float:
    return max((box.y + box.height for box in stack), default=0.0)


def _centre_boxes(stack: Sequence[Box], height: float) -> list[Box]:
    """Move the boxes of a column to the middle of the height."""
    down = (height - _end(stack)) / 2
    return [replace(box, y=box.y + down) for box in stack]


def _curves(edges: Sequence[Edge], chains: dict[Edge, list[str]], boxes: dict[str, Box]) -> Iterator[Curve]:
    for edge, chain in chains.items():
        if len(chain) > 1:
            yield Curve(edge, _path([boxes[key] for key in chain]))
    for edge in edges:
        if edge.kind == "quarantine" and edge.target in boxes:
            source, target = boxes[edge.source], boxes[edge.target]
            x, y = source.x + 8, source.y + source.height
            yield Curve(edge, f"M{x:.1f} {y:.1f}V{target.y + target.height / 2:.1f}H{target.x:.1f}")


def _chain(edge: Edge, column: dict[str, int], columns: list[list[Node]]) -> list[str]:
    """Return the keys of the nodes on an edge's route, and add a free lane to each column between its ends."""
    if edge.source not in column or edge.target not in column:
        return []
    keys = [edge.source]
    for number in range(column[edge.source] + 1, column[edge.target]):
        lane = Node(f"{edge.source} to {edge.target}", _LANE, f"{edge.source} to {edge.target} {number}")
        columns[number].append(lane)
        keys.append(lane.key)
    return [*keys, edge.target]


def _columns(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, int]:
    """Return the column of each node: after all that it reads, and after all of the layers before its own."""
    reads: dict[str, list[str]] = {}
    for edge in edges:
        reads.setdefault(edge.target, []).append(edge.source)
    columns: dict[str, int] = {}
    first = 0
    for layer in ("landing", "bronze", "silver", "gold"):
        of_layer = [node for node in nodes if _layer(node, nodes, edges) == layer]
        for _ in of_layer:  # as often as the longest chain can be
            for node in of_layer:
                after_reads = [columns[read] + 1 for read in reads.get(node.key, ()) if read in columns]
                columns[node.key] = max([first, *after_reads])
        first = max([first, *(columns[node.key] + 1 for node in of_layer)])
    return columns


def _layer(node: Node, nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """Return the layer in whose columns a node is drawn; a view has that of the first tables that read it."""
    if node.kind != "view":
        return node.kind
    kinds = {other.key: other.kind for other in nodes}
    readers, pending = set[str](), [node.key]
    while pending:
        source = pending.pop()
        for edge in edges:
            if edge.source != source or edge.target in readers:
                continue
            readers.add(edge.target)
            if kinds.get(edge.target) == "view":
                pending.append(edge.target)
    if any(kinds.get(reader) == "silver" for reader in readers):
        return "silver"
    return "gold"


def _order_columns(columns: list[list[Node]], edges: Sequence[tuple[str, str]]) -> None:
    """Sort each column by the middle of the neighbours of its nodes, from the left and back."""
    near: dict[str, list[str]] = {}
    for source, target in edges:
        near.setdefault(source, []).append(target)
        near.setdefault(target, []).append(source)
    for sweep in range(SWEEPS):
        place = {node.key: (number + 0.5) / len(nodes) for nodes in columns for number, node in enumerate(nodes)}
        for nodes in columns if sweep % 2 == 0 else reversed(columns):

            def middle_place(node: Node, place: dict[str, float] = place) -> float:
                neighbours = [place[name] for name in near.get(node.key, ()) if name in place]
                if neighbours:
                    return sum(neighbours) / len(neighbours)
                return place[node.key]

            nodes.sort(key=middle_place)
            place |= {node.key: (number + 0.5) / len(nodes) for number, node in enumerate(nodes)}


def _path(chain: Sequence[Box]) -> str:
    """Draw a curve from the right side of a box to the left side of another, straight through the lanes between."""
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


def _bands(columns: list[list[Node]]) -> list[Band]:
    """Return the layers, each as wide as its columns; a column without tables belongs to the layer before it."""
    bands: list[Band] = []
    name = ""
    for number, nodes in enumerate(columns):
        name = next((_LAYERS[node.kind] for node in nodes if node.kind in _LAYERS), name)
        x = number * (WIDTH + GAP_X)
        if bands and bands[-1].name == name:
            bands[-1] = Band(name, bands[-1].x, x + WIDTH - bands[-1].x)
        else:
            bands.append(Band(name, x, WIDTH))
    return bands
