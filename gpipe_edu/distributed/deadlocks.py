"""Which process waits for which: the diaries of all processes, read together.

Messages from one process to another with the same tag arrive in the order in which they were sent: the n-th send meets
the n-th receive. With gloo a send ends only when it meets its receive. So a process is certainly stuck if it waits for
a message that has not been posted, and all other processes are stuck as well, or have returned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import NamedTuple

from gpipe_edu.process.lines import Line

from .diary import Entry

Flow = dict[tuple[int, int, int], list["Post"]]


class Post(NamedTuple):
    """A message that process `rank` has posted: a send to, or a receive from, `peer` (None: any source)."""

    rank: int
    number: int
    do: str
    peer: int | None
    tag: int
    shape: tuple[int, ...]
    dtype: str
    line: Line

    @property
    def sends(self) -> bool:
        """Whether it is a send."""
        return "send" in self.do

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)


class Fault(NamedTuple):
    """What is wrong with the messages: its kind, a sentence, and the lines of the function that caused it."""

    reason: str
    message: str
    lines: tuple[Line, ...] = ()


class MessageLog:
    """All that the diaries say about messages. Processes in `returned` will post no more."""

    def __init__(self, diaries: Sequence[Sequence[Entry]], returned: Collection[int] = ()) -> None:
        self.returned = returned
        self.posts: list[dict[int, Post]] = []
        self.ended: list[set[int]] = []
        self.dropped: list[set[int]] = []
        self.late: list[set[int]] = []  # sends whose step returned before they were waited for
        self.waiting: list[Post | None] = []
        self._read(diaries)
        self.sends, self.receives = self._flow(True), self._flow(False)

    def deadlock(self) -> Fault | None:
        """The deadlock, if there is one; or the mismatched message before it, since the rest follows from that."""
        waits = [post for rank, post in enumerate(self.waiting) if post is not None and rank not in self.returned]
        if not waits or len(waits) + len(self.returned) < len(self.posts) or any(map(self._comes, waits)):
            return None
        if unlike := self.mismatch():
            return unlike
        sentences = [self._sentence(post) for post in waits]
        lines = tuple(post.line for post in waits)
        return Fault(self._reason(waits), f"deadlock: {'; '.join(sentences)}. Nobody can go on.", lines)

    def pairs(self) -> Iterator[tuple[Post, Post]]:
        """Each send with the receive that it meets."""
        for key, sends in self.sends.items():
            yield from zip(sends, self.receives.get(key, []), strict=False)

    def mismatch(self) -> Fault | None:
        """The first message that did not fit the buffer it met."""
        for sent, received in self.pairs():
            if (sent.dtype, sent.size) != (received.dtype, received.size):
                message = (
                    f"process {sent.rank} sent {_form(sent)}, and process {received.rank} received it as "
                    f"{_form(received)}: the bytes do not fit, and no error need be raised"
                )
                reason = "dtype" if sent.size == received.size else "size"
                return Fault(reason, message, (sent.line, received.line))
        return None

    def leftover(self) -> Fault | None:
        """After all have returned: a message that was not received, or not waited for."""
        for (source, target, tag), sends in self.sends.items():
            missing = len(sends) - len(self.receives.get((source, target, tag), []))
            if missing > 0 and not self._from_anybody(target):
                message = (
                    f"process {source} sent {len(sends)} messages to process {target}, which received {missing} fewer"
                )
                return Fault("unreceived", message, (sends[-missing].line,))
        for rank, (dropped, late) in enumerate(zip(self.dropped, self.late, strict=True)):
            for number in sorted(dropped | late):
                post = self.posts[rank][number]
                message = f"process {rank} did not wait for its {post.do}: keep what {post.do} gives back, and wait()"
                return Fault("unwaited", message, (post.line,))
        return None

    def _read(self, diaries: Sequence[Sequence[Entry]]) -> None:
        for rank, diary in enumerate(diaries):
            posts: dict[int, Post] = {}
            ended: set[int] = set()
            dropped: set[int] = set()
            late: set[int] = set()
            waiting: Post | None = None
            for entry in diary:
                if "post" in entry:
                    number, shape = entry["post"], tuple(entry["shape"])
                    fields = entry["do"], entry["peer"], entry["tag"], shape, entry["dtype"], Line(*entry["line"])
                    posts[number] = Post(rank, number, *fields)
                elif "wait" in entry:
                    waiting = posts[entry["wait"]]._replace(line=Line(*entry["line"]))
                elif "end" in entry:
                    ended.add(entry["end"])
                    waiting = None
                elif "drop" in entry:
                    dropped.add(entry["drop"])
                elif "returned" in entry:
                    late |= {number for number, post in posts.items() if post.sends} - ended
            self.posts.append(posts)
            self.ended.append(ended)
            self.dropped.append(dropped)
            self.late.append(late)
            self.waiting.append(waiting)

    def _flow(self, sends: bool) -> Flow:
        """By source, target and tag: the sends, or the receives, in order."""
        flow: Flow = defaultdict(list)
        for rank, posts in enumerate(self.posts):
            for post in posts.values():
                if post.sends is sends and post.peer is not None:
                    pair = (rank, post.peer) if sends else (post.peer, rank)
                    flow[*pair, post.tag].append(post)
        return dict(flow)

    def _from_anybody(self, rank: int) -> bool:
        return any(post.peer is None for post in self.posts[rank].values())

    def _match(self, post: Post) -> Post | None:
        """The counterpart of `post`, if it has been posted."""
        if post.peer is None:
            return None
        key = (post.rank, post.peer, post.tag) if post.sends else (post.peer, post.rank, post.tag)
        ours, theirs = (self.sends, self.receives) if post.sends else (self.receives, self.sends)
        index = [other.number for other in ours[key]].index(post.number)
        found = theirs.get(key, [])
        return found[index] if index < len(found) else None

    def _comes(self, post: Post) -> bool:
        """Whether what `post` waits for has been posted, or may have been."""
        if post.peer is None or self._from_anybody(post.peer):
            return True
        match = self._match(post)
        return match is not None and match.number not in self.dropped[match.rank] - self.ended[match.rank]

    def _reason(self, waits: Sequence[Post]) -> str:
        for post in waits:
            match = self._match(post)
            if match is not None and match.number in self.dropped[match.rank]:
                return "lost"
        for post in waits:
            pair = (post.rank, post.peer) if post.sends else (post.peer, post.rank)
            for (source, target, tag), posts in (self.receives if post.sends else self.sends).items():
                met = (self.sends if post.sends else self.receives).get((source, target, tag), [])
                if (source, target) == pair and tag != post.tag and len(posts) > len(met):
                    return "tags"
        if any(post.peer in self.returned for post in waits):
            return "returned"
        kinds = {post.sends for post in waits}
        return "waits" if len(kinds) > 1 else "sends" if True in kinds else "receives"

    def _sentence(self, post: Post) -> str:
        what = "for process {} to receive" if post.sends else "for a message from process {}"
        words = f"process {post.rank} waits {what.format(post.peer)}"
        words += f" (tag {post.tag})" if post.tag else ""
        match = self._match(post)
        if match is not None and match.number in self.dropped[match.rank]:
            return f"{words}, which was lost when the handle of its {match.do} was thrown away"
        return f"{words}, which has returned" if post.peer in self.returned else words


def _form(post: Post) -> str:
    return f"{' x '.join(map(str, post.shape)) or 'one number'} of {post.dtype}"
