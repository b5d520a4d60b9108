"""Right answers to the five Reasoning Gym tasks whose entries have none, found without their scorers."""

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

Entry = Mapping[str, Any]
Board = tuple[tuple[str, int], ...]  # the cars and the place of the first cell of each


def colouring(entry: Entry) -> str:
    """A colouring by backtracking."""
    puzzle = entry["metadata"]["puzzle"]
    beside: dict[int, set[int]] = {vertex: set() for vertex in puzzle["vertices"]}
    for item, other in puzzle["edges"]:
        beside[item].add(other)
        beside[other].add(item)
    chosen: dict[int, int] = {}

    def fill(place: int) -> bool:
        if place == len(puzzle["vertices"]):
            return True
        vertex = puzzle["vertices"][place]
        for colour in puzzle["color_options"]:
            if all(chosen.get(neighbour) != colour for neighbour in beside[vertex]):
                chosen[vertex] = colour
                if fill(place + 1):
                    return True
                del chosen[vertex]
        return False

    assert fill(0)
    return json.dumps({str(vertex): colour for vertex, colour in chosen.items()})


def conclusion(entry: Entry) -> str:
    """All premises together: what is given follows, and is no tautology unless they are."""
    return " ∧ ".join(f"({premise})" for premise in entry["metadata"]["premises"])


def unscrambled(entry: Entry) -> str:
    """The scramble backwards."""
    moves = reversed(entry["metadata"]["scramble_moves"].split())
    return " ".join(move.removesuffix("'") if move.endswith("'") else move + "'" for move in moves)


def carried(entry: Entry) -> str:
    """Each box carried to a target of its colour, one square at a time."""
    state = entry["metadata"]["initial_state"]
    places = [(item, *map(float, place.split("_"))) for place, items in state.items() for item in items]
    targets = [place for place in places if place[0].startswith("target_")]
    actions = []
    for box, x, y in (place for place in places if place[0].startswith("box_")):
        colour = box.replace("box_", "target_")
        target = next(target for target in targets if target[0] == colour)
        targets.remove(target)
        while (x, y) != target[1:]:
            next_x = x + (x < target[1]) - (x > target[1])
            next_y = y if next_x != x else y + (y < target[2]) - (y > target[2])
            actions.append({f"Agent[{x}, {y}]": f"move({box}, square[{next_x}, {next_y}])"})
            x, y = next_x, next_y
        actions.append({f"Agent[{x}, {y}]": f"move({box}, {colour})"})
    return json.dumps(actions)


def driven_out(entry: Entry) -> str:
    """The shortest moves, breadth first on the 6 by 6 board."""
    cells = entry["metadata"]["board_config"]
    walls = {place for place, mark in enumerate(cells) if mark == "x"}
    spans = {car: [p for p, mark in enumerate(cells) if mark == car] for car in sorted(set(cells) - {"o", "x"})}
    shapes = {car: [place - span[0] for place in span] for car, span in spans.items()}
    strides = {car: span[1] - span[0] for car, span in spans.items()}
    start: Board = tuple((car, span[0]) for car, span in spans.items())
    paths: dict[Board, tuple[str, ...]] = {start: ()}
    queue = deque([start])
    while queue:
        board = queue.popleft()
        if dict(board)["A"] + 1 == 17:  # the last cell of the third row
            return " ".join(paths[board])
        taken = walls | {place + cell for car, place in board for cell in shapes[car]}
        for number, (car, place) in enumerate(board):
            for way in (1, -1):
                stride = strides[car]
                edge = place + (shapes[car][-1] if way > 0 else 0)
                to = edge + way * stride
                if not 0 <= to < 36 or (stride == 1 and to // 6 != edge // 6) or to in taken:
                    continue
                after = (*board[:number], (car, place + way * stride), *board[number + 1 :])
                if after not in paths:
                    paths[after] = (*paths[board], f"{car}{'+' if way > 0 else '-'}1")
                    queue.append(after)
    raise AssertionError("the puzzle has no solution")


SOLVERS: dict[str, Callable[[Entry], str]] = {
    "boxnet": carried,
    "graph_color": colouring,
    "propositional_logic": conclusion,
    "rubiks_cube": unscrambled,
    "rush_hour": driven_out,
}
