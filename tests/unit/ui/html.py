"""Reading pages: tags, texts and addresses, with the standard library's parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "input", "br", "circle", "rect", "polyline"}


@dataclass
class Node:
    """An element."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it, blanks run together."""
        return " ".join("".join(_texts(self)).split())

    def all(self, tag: str, **wanted: str) -> list[Node]:
        """The elements below it with this tag and these attributes (`_` for "-")."""
        names = {name.replace("_", "-"): value for name, value in wanted.items()}
        return [
            node
            for node in _nodes(self)
            if node.tag == tag and all(node.attributes.get(name) == value for name, value in names.items())
        ]

    def one(self, tag: str, **wanted: str) -> Node:
        """The only one."""
        (found,) = self.all(tag, **wanted)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag):
        names = [node.tag for node in self.open]
        if tag in names:
            del self.open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(text: str) -> Node:
    """A page as a tree."""
    reader = _Reader()
    reader.feed(text)
    return reader.root


def _nodes(node: Node):
    for child in node.children:
        if isinstance(child, Node):
            yield child
            yield from _nodes(child)


def _texts(node: Node):
    for child in node.children:
        if isinstance(child, str):
            yield child
        else:
            yield from _texts(child)
