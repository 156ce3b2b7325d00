"""Every way of text to a terminal leads through the place that makes it harmless: what goes another way is found here.

Commands write as text, and the streams of `kerneldb.output.terminal` make harmless what they write. So what is sought
are writes below those streams: bytes, descriptors, children that inherit them. Screens draw through the filter of
`kerneldb.tui.theme`; there, what is sought is text that Textual would read as markup.
"""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Final

import pytest

from tests.test_architecture import MODULES, label

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTPUT: Final = "kerneldb/output/terminal.py"
BELOW: Final = {
    "ingest/pytorch/workers.py: sys.stdout.buffer",  # a pipe of the parent
    "kerneldb/cli/process.py: os._exit",  # of a process whose streams are flushed
    "kerneldb/cli/root.py: sys.stdout.fileno",  # to close it, where its reader is gone
    "replay/recording/__main__.py: os.write",  # to a pipe of the parent
}
"""What looks like a write below the streams and is none."""
CHILDREN: Final = {
    "replay/recording/ranks.py": "a script of the user, who asked for it, has the terminal",
    "replay/worker/group.py": "started by a worker, whose output is a file",
}
"""Processes that inherit a stream, and why that is right."""
STARTS: Final = {
    "Popen",
    "run",
    "call",
    "check_call",
    "check_output",
    "create_subprocess_exec",
    "create_subprocess_shell",
}
SPAWNS: Final = {"os.system", "os.popen", "os.execv", "os.execvp", "os.spawnv", "pty.spawn"}
WRITES: Final = {"os.write", "os.writev", "sys.__stdout__", "sys.__stderr__", "sys.stdout.fileno", "sys.stderr.fileno"}
WIDGETS: Final = {"Static", "Label", "Button", "OptionList", "notify", "Checkbox", "RadioButton"}
READ_AS_MARKUP: Final = {"SelectionList", "Marks"}
TITLES: Final = {"border_title", "border_subtitle", "tooltip"}
PARSERS: Final = {"from_markup", "from_text", "render_markup", "from_ansi", "Markdown", "RichLog", "Pretty"}


@functools.cache
def parsed() -> dict[str, ast.Module]:
    return {label(path): ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def trees(folder: str = "") -> Iterator[tuple[str, ast.Module]]:
    yield from ((name, tree) for name, tree in parsed().items() if name.startswith(folder))


def dotted(node: ast.AST) -> str:
    """The name of what is called or read: sys.stdout.buffer; of what is no name, its last part."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def below_the_streams(tree: ast.Module) -> Iterator[str]:
    """Uses of bytes and descriptors of stdout and stderr, and of the terminal itself."""
    for node in ast.walk(tree):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        if name in WRITES or name.startswith(("sys.stdout.buffer", "sys.stderr.buffer")):
            yield name
        if isinstance(node, ast.Constant) and node.value == "/dev/tty":
            yield "/dev/tty"
        if isinstance(node, ast.Call):
            called, first = dotted(node.func), node.args[0] if node.args else None
            if called in {"open", "os.fdopen", "io.open"} and isinstance(first, ast.Constant) and first.value in {1, 2}:
                yield f"{called}({first.value})"
            if called in {
                "click.get_binary_stream",
                "click.get_text_stream",
                "click.open_file",
                "click.pager",
                "print",
            }:
                yield called
            if called in {"click.echo", "click.secho"} and isinstance(first, ast.Constant | ast.Call):
                is_bytes = (
                    isinstance(getattr(first, "value", None), bytes)
                    or dotted(getattr(first, "func", first))[-7:] == ".encode"
                )
                if is_bytes:
                    yield f"{called} of bytes"


def test_nothing_is_written_below_the_streams() -> None:
    found = {f"{name}: {what}" for name, tree in trees() if name != OUTPUT for what in below_the_streams(tree)}
    assert found - BELOW == set()


def inheriting(tree: ast.Module) -> Iterator[str]:
    """Calls that start a process without saying where its output goes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := dotted(node.func)):
            given = {keyword.arg for keyword in node.keywords}
            starts = name.rpartition(".")[2] in STARTS and name.startswith(("subprocess.", "asyncio.create_subprocess"))
            if (starts and "capture_output" not in given and not {"stdout", "stderr"} <= given) or name in SPAWNS:
                yield name


def test_processes_write_where_we_look_first() -> None:
    found = {name: list(inheriting(tree)) for name, tree in trees()}
    assert {name for name, calls in found.items() if calls} <= CHILDREN.keys()


def texts(node: ast.AST) -> list[ast.expr]:
    return (
        [*node.args, *(one.value for one in node.keywords if one.arg in {"title", "message"})]
        if isinstance(node, ast.Call)
        else []
    )


def is_markup_free(node: ast.expr) -> bool:
    """Whether an argument cannot be foreign: a literal of the code, or made as Content, which is not parsed."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str) or "[" not in node.value
    if isinstance(node, ast.Call):
        return dotted(node.func) in {"Content", "Content.styled", "Content.assemble"}
    return dotted(node) == "self.HINT"


def read_as_markup(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func).rpartition(".")[2]
            plain = any(one.arg == "markup" and getattr(one.value, "value", True) is False for one in node.keywords)
            if name in WIDGETS and not plain and not all(map(is_markup_free, texts(node))):
                yield f"{name} at line {node.lineno}: markup=False"
            if name in PARSERS:
                yield f"{name} at line {node.lineno}"
            if name in READ_AS_MARKUP and not all(map(is_choice, node.args)):
                yield f"{name} at line {node.lineno}: Content"
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in assigned(target, node.value)]
            if any(getattr(target, "attr", "") in TITLES and not is_markup_free(value) for target, value in pairs):
                yield f"title at line {node.lineno}: Content"


def is_choice(node: ast.expr) -> bool:
    """An entry of a list of marks whose text is Content; also a generator of such."""
    inner = node.value if isinstance(node, ast.Starred) else node
    inner = inner.elt if isinstance(inner, ast.GeneratorExp | ast.ListComp) else inner
    return is_markup_free(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)


def assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def test_screens_read_no_text_as_markup() -> None:
    found = {name: list(read_as_markup(tree)) for name, tree in trees("tui/")}
    assert {name: calls for name, calls in found.items() if calls} == {}


PLANTED: Final = {
    below_the_streams: (
        "sys.stdout.buffer.write(name)", "os.write(1, name)", "sys.__stderr__.write(name)", "open('/dev/tty')",
        "open(1, 'w')", "print(name)", "click.echo(name.encode())", "click.echo(b'x')", "click.pager(name)",
    ),
    inheriting: (
        "subprocess.run([name])", "subprocess.Popen([name], stdout=PIPE)", "os.system(name)", "pty.spawn(name)",
        "asyncio.create_subprocess_exec(name)",
    ),
    read_as_markup: (
        "Static(name)", "Label(name)", "app.notify(name)", "app.notify(name, markup=True)", "OptionList(name)",
        "Marks((name, 1))", "SelectionList(*((one, one) for one in names))", "box.border_title = name",
        "box.border_title, box.border_subtitle = Content(name), name", "Content.from_markup(name)",
        "Text.from_markup(name)", "widget.tooltip = f'{name}'", "Static(f'[b]{name}')", "Label('[b]x')",
    ),
}  # fmt: skip


@pytest.mark.parametrize("seek", PLANTED)
def test_what_goes_another_way_is_found(seek: object) -> None:
    assert callable(seek)
    assert [code for code in PLANTED[seek] if not list(seek(ast.parse(code)))] == []  # type: ignore[index]
