"""How densely the code of the packages is written: figures that `test_house.py` holds to limits."""

import ast
import io
import re
import tokenize
from pathlib import Path

COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
# Names of locals that say nothing about the value.
VAGUE = frozenset(
    "found given own what place some made said told known wanted others rest here it them these"
    " those both each many few one much more most whole such way thing things".split()
)
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def is_docstring(node):
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def code_lines(text, tree):
    """The numbers of lines that hold code: no docstring, no comment, not blank."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if is_docstring(node):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return lines


def count_nodes(tree):
    """Nodes of the syntax tree without docstrings: they stay the same when a line is broken."""
    nodes = [
        node
        for node in ast.walk(tree)
        if not isinstance(node, ast.expr_context)
    ]
    docstrings = [node for node in nodes if is_docstring(node)]
    return len(nodes) - 2 * len(docstrings)


def is_tuple_assignment(node):
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


def is_nested(node):
    inner = [
        child for child in ast.walk(node) if isinstance(child, COMPREHENSION)
    ]
    return isinstance(node, COMPREHENSION) and len(inner) > 1


def has_vague_local(function):
    names = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return bool(names & VAGUE)


def body_lines(function):
    first = function.body[0]
    start = first.end_lineno if is_docstring(first) else first.lineno - 1
    return function.end_lineno - start


def measure(folders):
    """The figures of all Python files and templates below some folders."""
    paths = [path for folder in folders for path in Path(folder).rglob("*.py")]
    n_lines = 0
    n_nodes = 0
    counts = dict.fromkeys(
        ("ternaries", "tuples", "nested", "Any", "vague"), 0
    )
    bodies = []
    file_lengths = []
    for path in paths:
        text = path.read_text(encoding="utf8")
        tree = ast.parse(text)
        n_lines += len(code_lines(text, tree))
        n_nodes += count_nodes(tree)
        file_lengths.append(text.count("\n"))
        for node in ast.walk(tree):
            counts["ternaries"] += isinstance(node, ast.IfExp)
            counts["tuples"] += is_tuple_assignment(node)
            counts["nested"] += is_nested(node)
            counts["Any"] += isinstance(node, ast.Name) and node.id == "Any"
            if isinstance(node, FUNCTION):
                counts["vague"] += has_vague_local(node)
                bodies.append(body_lines(node))
    return {
        "nodes in a line": n_nodes / n_lines,
        "files": len(paths),
        "longest file": max(file_lengths),
        "longest function": max(bodies),
        "functions over 40 lines": sum(length > 40 for length in bodies),
        "ternaries in 1,000 lines": 1000 * counts["ternaries"] / n_lines,
        "tuple assignments in 1,000 lines": 1000 * counts["tuples"] / n_lines,
        "nested comprehensions in 1,000 lines": 1000
        * counts["nested"]
        / n_lines,
        "Any": counts["Any"],
        "functions with a vague local": counts["vague"],
        "decisions in templates": template_decisions(folders),
    }


def template_decisions(folders):
    """Decisions of templates that are not HTML or SVG: those belong in Python."""
    paths = [path for folder in folders for path in Path(folder).rglob("*.j2")]
    texts = [
        path.read_text(encoding="utf8")
        for path in paths
        if not path.name.endswith((".html.j2", ".svg.j2"))
    ]
    pattern = re.compile(r"{%-?\s*(?:if|elif|set|for|macro)\b")
    return sum(len(pattern.findall(text)) for text in texts)
