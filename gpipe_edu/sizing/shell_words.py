"""The words that a shell script gives its programs, with its variables resolved as a shell would, and nothing run.

What only a run can tell stays as it is written, `$NAME`: what the environment has, what a program prints, which way a
condition goes. Where both ways of a condition set a variable to one value, or only one way gives it any, that counts.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from time import process_time
from typing import TYPE_CHECKING, Final

from gpipe_edu.base.bounded import TooMuchError
from gpipe_edu.base.terminal import needing

if TYPE_CHECKING:
    from tree_sitter import Node

Value = str | list[str]

_MOST_LETTERS: Final = 100_000
"""Of one value, and of a script: variables may hold one another, twice each."""

_MOST_SECONDS: Final = 2
"""Of CPU time, for the syntax: real scripts take hundredths of one, and brackets opened thousands of times hours."""

_MOST_STEPS: Final = 20_000
_DEEPEST: Final = 8
"""Functions within functions, and commands within a command's words."""

_PASSED_THROUGH: Final = frozenset(
    ["program", "list", "pipeline", "redirected_statement", "subshell", "compound_statement", "do_group", "ERROR"]
)
_LOOPS: Final = frozenset(["for_statement", "while_statement", "c_style_for_statement"])
_NUMBERS: Final = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: Final = {"-eq": "eq", "-ne": "ne", "-gt": "gt", "-ge": "ge", "-lt": "lt", "-le": "le"}
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\([$`\"\\\n])")
_UNKNOWN: Final = re.compile(r"\$[\w{(*@#?]|`")
_OPTION: Final = re.compile(r"(?:^|\s)--\w")
_BRACES: Final = re.compile(r"\$\{(\w+)(:?[-=+])(.*)\}", re.DOTALL)


def words_of_script(text: str, named: str) -> list[str]:
    """The words of all commands, in their order, behind those that stand in variables that no command uses.

    named: the text, for an error. Raises ValueError for quotes that are not closed, and for a text that is no script of
    any sensible length.
    """
    if len(text) > _MOST_LETTERS:
        raise TooMuchError(
            f"{named} has {len(text):,} letters, and a script that is read here at most {_MOST_LETTERS:,}"
        )
    shell = _Shell()
    shell.run(_tree(text, named))
    unused = [value for name, value in shell.values.items() if name not in shell.used]
    return [*shell.within(word for value in unused for word in _listed(value)), *shell.words]


def _tree(text: str, named: str = "") -> Node:
    """The text's syntax. named: where quotes must be closed."""
    with needing("notebooks", "a shell script"):
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    source, ends = text.encode(), process_time() + _MOST_SECONDS
    try:
        tree = Parser(Language(tree_sitter_bash.language())).parse(
            lambda at, _: source[at : at + (1 << 16)], progress_callback=lambda *_: process_time() > ends
        )
    except ValueError:
        raise TooMuchError(f"{named or 'a script'} is no script that can be read in {_MOST_SECONDS} seconds") from None
    root = tree.root_node
    if named and root.has_error and _is_open(text):
        raise ValueError(f"{named} does not read as a shell's words (no closing quotation): close its quotes")
    return root


def _is_open(text: str) -> bool:
    """Whether a quote is not closed by the end."""
    left = re.sub(r"""\\.|'[^']*+'|"(?:[^"\\]|\\.)*+"|(?<!\S)#[^\n]*+""", "", text, flags=re.DOTALL)
    return '"' in left or "'" in left


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _listed(value: Value) -> list[str]:
    return [value] if isinstance(value, str) else value


def _is_known(text: str) -> bool:
    return not _UNKNOWN.search(text)


class _Shell:
    """What is known while a script is read. used: the names of variables whose values went into words."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.used: set[str] = set()
        self.words: list[str] = []
        self._unsure: set[str] = set()
        self._functions: dict[str, Node] = {}
        self._steps = self._depth = 0

    def run(self, node: Node) -> None:
        """Take a statement, or all in it, as run."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise TooMuchError(f"a script of more than {_MOST_STEPS:,} steps is not read")
        kind = node.type
        if kind == "variable_assignment":
            self._assign(node)
        elif kind == "declaration_command":
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._assign(child)
        elif kind == "command":
            self._command(node)
        elif kind == "function_definition":
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and body is not None:
                self._functions[_text(name)] = body
        elif kind == "if_statement":
            self._choose(list(_ways(node, self)))
        elif kind == "case_statement":
            self._choose(list(self._cases(node)))
        elif kind in _LOOPS:
            self._loop(node)
        elif kind in _PASSED_THROUGH:
            for child in node.named_children:
                self.run(child)

    def within(self, words: Iterable[str]) -> Iterator[str]:
        """The words, and those of commands that are one word, such as `bash -c "..."`."""
        for word in words:
            if _OPTION.search(word) and re.search(r"\s", word.strip()) and self._depth < _DEEPEST:
                inner = _Shell()
                inner.values, inner._depth = dict(self.values), self._depth + 1
                inner.run(_tree(word.replace("\n", " ")))
                yield from inner.words
            else:
                yield word

    def _assign(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            return
        key = _text(name)
        found: Value = "" if value is None else self._value(value)
        if any(child.type == "+=" for child in node.children):
            before = self.values.get(key, [] if isinstance(found, list) else "")
            if isinstance(before, str) and isinstance(found, str):
                found = before + found
            else:
                found = [*([before] if before and isinstance(before, str) else before), *_listed(found)]
        if sum(map(len, _listed(found))) > _MOST_LETTERS:
            raise TooMuchError(f"the variable {key[:40]} grows beyond {_MOST_LETTERS:,} letters")
        self._unsure.discard(key)
        self.values[key] = found

    def _value(self, node: Node) -> Value:
        if node.type == "array":
            return [word for child in node.named_children if child.type != "comment" for word in self._fields(child)]
        return " ".join(self._fields(node, split=False))

    def _command(self, node: Node) -> None:
        words = [
            word
            for child in node.named_children
            if child.type not in ("variable_assignment", "file_redirect", "herestring_redirect", "comment")
            for word in self._fields(child)
        ]
        body = self._functions.get(words[0]) if words else None
        if body is not None and self._depth < _DEEPEST:
            self._depth += 1
            before = {name: value for name, value in self.values.items() if name.isdigit()}
            self.values |= {str(number): word for number, word in enumerate(words) if number}
            self.run(body)
            self.values |= before
            self._depth -= 1
        else:
            self.words += self.within(words)
        if len(self.words) > _MOST_STEPS:
            raise TooMuchError(f"a script of more than {_MOST_STEPS:,} words is not read")

    def _fields(self, node: Node, split: bool = True) -> list[str]:
        """The words that one word becomes. split: whether a value with blanks is several."""
        kind = node.type
        if kind == "command_name" or (kind in ("word", "concatenation") and node.named_child_count):
            parts = [self._fields(child, split) for child in node.named_children]
            found = parts[0] if parts else []
            for part in parts[1:]:
                found = [*found[:-1], "".join([*found[-1:], *part[:1]]), *part[1:]]
            return found
        if kind == "string":
            return self._quoted(node)
        if kind in ("raw_string", "ansi_c_string"):
            return [_text(node).removeprefix("$")[1:-1]]
        if kind in ("simple_expansion", "expansion"):
            value = self._expanded(node)
            if isinstance(value, list):
                return value
            return (value.split() or []) if split and _is_known(value) else [value]
        if kind == "arithmetic_expansion":
            return [self._number(node)]
        text = _text(node)
        return [_ESCAPED.sub(lambda match: match[1].strip("\n"), text) if kind == "word" else text]

    def _quoted(self, node: Node) -> list[str]:
        """What stands between double quotes: one word, unless it is all items of an array."""
        inner = node.named_children
        if (
            len(inner) == 1
            and inner[0].type == "expansion"
            and inner[0].end_byte - inner[0].start_byte == (node.end_byte - node.start_byte - 2)
        ):
            value = self._expanded(inner[0])
            return value if isinstance(value, list) else [value]
        whole, begin = node.text or b"", node.start_byte
        found, at = "", 1
        for child in inner:
            found += whole[at : child.start_byte - begin].decode(errors="replace")
            if child.type == "string_content":
                found += _ESCAPED_IN_QUOTES.sub(lambda match: match[1].strip("\n"), _text(child))
            else:
                found += " ".join(self._fields(child, split=False))
            at = child.end_byte - begin
        return [found + whole[at:-1].decode(errors="replace")]

    def _expanded(self, node: Node) -> Value:
        """The value of `$NAME` or `${NAME...}`; as it stands, if it is not known."""
        text = _text(node)
        match = re.fullmatch(r"\$(\w+)|\$\{(\w+)(?:\[[@*]\])?\}", text)
        if match:
            name = match[1] or match[2]
            self.used.add(name)
            return self.values.get(name, text)
        match = _BRACES.fullmatch(text)
        if not match or match[1] in self._unsure:
            return text
        name, sign, other = match.groups()
        self.used.add(name)
        there = self.values.get(name)
        if there is not None and not all(map(_is_known, _listed(there))):
            return text
        empty = there is None or (":" in sign and not there)
        if "+" in sign:
            return "" if empty else self._default(other)
        return self._default(other) if empty else there or ""

    def _default(self, text: str) -> str:
        inner = _Shell()
        inner.values, inner._unsure, inner._depth = self.values, self._unsure, self._depth + 1
        if inner._depth > _DEEPEST:
            return text
        tree = _tree(f"x={text}" if re.match(r"""["'$]""", text) or " " not in text else f'x="{text}"')
        inner.values = dict(self.values)
        inner.run(tree)
        found = inner.values.get("x", text)
        return found if isinstance(found, str) else " ".join(found)

    def _number(self, node: Node) -> str:
        """The value of `$((...))`, as it stands if it is not known."""
        text = _text(node)
        inner = text[3:-2] if text.startswith("$((") else text[2:-1]
        named = re.sub(
            r"\$?\{?\b([A-Za-z_]\w*)\}?",
            lambda match: value if isinstance(value := self.values.get(match[1], "?"), str) and value else "?",
            inner,
        )
        self.used.update(re.findall(r"[A-Za-z_]\w*", inner))
        if len(named) > 200 or not re.fullmatch(r"[\d\s+*/%()-]+", named) or re.search(r"\d{13}|\*\s*\*", named):
            return text
        try:
            return str(_computed(ast.parse(named.strip(), mode="eval").body))
        except (SyntaxError, ValueError, ZeroDivisionError):
            return text

    def _choose(self, ways: Sequence[tuple[bool | None, list[Node]]]) -> None:
        """Run the way that is taken; if that is not known, all that may be, and keep what they agree on."""
        possible: list[list[Node]] = []
        certain = False
        for taken, body in ways:
            if taken is False:
                continue
            possible.append(body)
            if taken:
                certain = True
                break
        if certain and len(possible) == 1:
            for node in possible[0]:
                self.run(node)
            return
        before = dict(self.values)
        after = [] if certain else [before]
        for body in possible:
            self.values = dict(before)
            for node in body:
                self.run(node)
            after.append(self.values)
        self.values = dict(before)
        for name in dict.fromkeys(name for values in after for name in values):
            told = [values[name] for values in after if name in values]
            if all(value == told[0] for value in told):
                self.values[name] = told[0]
            elif all(isinstance(value, list) or _OPTION.search(value) for value in told):
                self.values[name] = told[0] if name in before else told[-1]  # what a condition adds is left out
            else:
                self.values.pop(name, None)
                self._unsure.add(name)

    def _cases(self, node: Node) -> Iterator[tuple[bool | None, list[Node]]]:
        subject = node.child_by_field_name("value")
        told = " ".join(self._fields(subject, split=False)) if subject is not None else "$"
        for item in node.named_children:
            if item.type != "case_item":
                continue
            patterns = item.children_by_field_name("value")
            texts = [" ".join(self._fields(pattern, split=False)) for pattern in patterns]
            plain = all(re.fullmatch(r"[\w.+-]*", text) for text in texts)
            taken = None
            if _is_known(told):
                taken = told in texts if plain else True if "*" in texts else None
            yield taken, [child for child in item.named_children if child not in patterns]

    def _loop(self, node: Node) -> None:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is not None:
            name = _text(variable)
            items = [word for item in node.children_by_field_name("value") for word in self._fields(item)]
            self.values.pop(name, None)
            self._unsure.add(name)
            if len(items) == 1:
                self.values[name] = items[0]
        if body is not None:
            self._choose([(None, [body])])

    def holds(self, node: Node) -> bool | None:
        """Whether a condition holds; None if that is not known."""
        if node.type in ("test_command", "parenthesized_expression") and node.named_child_count == 1:
            return self.holds(node.named_children[0])
        sign = node.child_by_field_name("operator")
        said = _text(sign) if sign is not None else ""
        if node.type == "unary_expression" and node.named_children:
            last = node.named_children[-1]
            if said == "!":
                inner = self.holds(last)
                return None if inner is None else not inner
            told = self._told(last)
            return None if told is None or said not in ("-n", "-z") else bool(told) == (said == "-n")
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "binary_expression" or left is None or right is None:
            return None
        if said in ("&&", "||"):
            both = self.holds(left), self.holds(right)
            decisive = said == "||"
            return decisive if decisive in both else None if None in both else not decisive
        one, other = self._told(left), self._told(right)
        if one is None or other is None:
            return None
        if said in ("=", "==", "!="):
            return None if re.search(r"[*?\[]", other) else (one == other) == (said != "!=")
        if said in _COMPARED and re.fullmatch(r"-?\d{1,12}", one) and re.fullmatch(r"-?\d{1,12}", other):
            return bool(getattr(operator, _COMPARED[said])(int(one), int(other)))
        return None

    def _told(self, node: Node) -> str | None:
        found = " ".join(self._fields(node, split=False))
        return found if _is_known(found) else None


def _ways(node: Node, shell: _Shell) -> Iterator[tuple[bool | None, list[Node]]]:
    """The conditions of an `if` and its branches."""
    conditions = [child for child in node.children_by_field_name("condition") if child.is_named]
    body = [child for child in node.named_children if child not in conditions]
    taken = shell.holds(conditions[0]) if len(conditions) == 1 else None
    yield taken, [child for child in body if child.type not in ("elif_clause", "else_clause")]
    for child in body:
        if child.type == "elif_clause":
            first, *rest = child.named_children or [child]
            yield shell.holds(first), rest
        elif child.type == "else_clause":
            yield True, child.named_children


def _computed(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_computed(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _NUMBERS:
        return int(_NUMBERS[type(node.op)](_computed(node.left), _computed(node.right)))
    raise ValueError
