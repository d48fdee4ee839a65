"""Whether members of two lists can be paired: maximum matching in a bipartite graph."""

from collections.abc import Sequence


def has_matching(partners: Sequence[Sequence[int]], size: int) -> bool:
    """Returns whether `size` members can each get a partner of their own. `partners[i]` are those
    that member i accepts.

    Augmenting paths, searched breadth first: a member that finds all its partners taken asks the
    members that took them to move on.
    """
    member_of: dict[int, int] = {}
    paired = 0
    for member in range(len(partners)):
        paired += _augment(member, partners, member_of)
        if paired >= size:
            return True
    return paired >= size


def _augment(start: int, partners: Sequence[Sequence[int]], member_of: dict[int, int]) -> bool:
    came_from: dict[int, int] = {}  # the member that reached a partner
    waiting = [start]
    for member in waiting:
        for partner in partners[member]:
            if partner in came_from:
                continue
            came_from[partner] = member
            if partner in member_of:
                waiting.append(member_of[partner])
                continue
            _take(partner, start, came_from, member_of)
            return True
    return False


def _take(partner: int, start: int, came_from: dict[int, int], member_of: dict[int, int]) -> None:
    """Gives a free partner to the member that reached it, and that one's former partner to the
    member before, until the start has one."""
    while True:
        member = came_from[partner]
        former = next((taken for taken, holder in member_of.items() if holder == member), None)
        member_of[partner] = member
        if member == start or former is None:
            return
        partner = former
