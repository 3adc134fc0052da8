"""What the source code never does, read from its syntax trees: run texts, start programs, load objects, make expressions or ciphers of its own."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import SecretStr

from sluice.api_keys.secret import KeyMode, new_key, parse_key
from sluice.settings import Settings

SOURCE = Path(__file__).parents[2] / "src" / "sluice"
PATTERNS = {"compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer"}


@cache
def trees() -> dict[str, ast.Module]:
    """Answer the syntax tree of each module. Read when first asked for: every worker collects this file, and one runs it."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _importing(*modules: str) -> set[str]:
    """Answer the files that import one of these modules, or something of it."""
    return {
        path
        for path, tree in trees().items()
        for name in _imports(tree)
        if any(name == module or name.startswith(f"{module}.") for module in modules)
    }


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Answer every call with its file and the words of what is called."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield path, ast.unparse(node.func), node


@pytest.mark.asvs("1.3.2")
def test_no_text_is_run_as_code() -> None:
    assert {path for path, called, _ in _calls() if called in {"eval", "exec", "compile", "__import__"}} == set()
    assert _importing("jinja2", "mako", "code", "codeop") == set()


@pytest.mark.asvs("1.2.5")
def test_no_program_is_started_but_the_checker_itself_and_none_by_a_shell() -> None:
    """The one that is: Python with a module of ours, and no word of it comes from a request."""
    assert _importing("subprocess", "pty", "commands") == {"engines/sandbox/program.py"}
    assert {path for path, called, _ in _calls() if called in {"os.system", "os.popen"} or called.startswith("os.spawn")} == set()
    assert {path for path, _, call in _calls() for word in call.keywords if word.arg == "shell"} == set()


@pytest.mark.asvs("1.4.1")
def test_memory_is_touched_by_hand_only_to_ask_the_kernel_and_in_the_locked_child() -> None:
    assert _importing("cffi", "numba", "Cython") == set()
    assert {path for path in _importing("ctypes") if not path.startswith("formats/")} == {
        "engines/sandbox/landlock.py",
        "engines/sandbox/lock.py",
        "engines/sandbox/seccomp.py",
        "kit/memory.py",
        "kit/writeback.py",
    }
    assert not [path for path in SOURCE.rglob("*") if path.suffix in {".c", ".h", ".pyx", ".so", ".rs"}]


@pytest.mark.asvs("1.5.2")
def test_no_object_is_loaded_from_bytes() -> None:
    assert _importing("pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml") == set()


@pytest.mark.asvs("1.2.9")
def test_no_expression_is_made_of_what_was_sent() -> None:
    """All are made when their module is loaded, before anything was sent, or written out; the one that is not is of a constant."""
    built = {
        f"{path}: {ast.unparse(call.args[0])}"
        for path, called, call in _within_functions()
        if called.startswith("re.") and called[3:] in PATTERNS and not isinstance(call.args[0], ast.Constant)
    }
    assert built == {"formats/archives/sevenzip_walk.py: re.escape(MAGIC)"}


def _within_functions() -> Iterator[tuple[str, str, ast.Call]]:
    for path, tree in trees().items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield from ((path, ast.unparse(node.func), node) for node in ast.walk(function) if isinstance(node, ast.Call))


@pytest.mark.asvs("11.2.1", "11.3.1")
def test_the_only_cipher_is_aes_gcm_of_the_library() -> None:
    ciphers = {
        name for tree in trees().values() for name in _imports(tree) if name.startswith("cryptography") and "ciphers" in name
    }
    assert ciphers == {"cryptography.hazmat.primitives.ciphers.aead.AESGCM"}
    assert _importing("Crypto", "Cryptodome", "nacl", "rsa", "ecdsa", "M2Crypto", "crypt") == set()


@pytest.mark.asvs("11.4.3")
def test_what_is_signed_compared_or_kept_is_hashed_with_sha_256() -> None:
    """Old hashes are read in strangers' files alone, where the format says so, and marked as such."""
    hashes = {(path.partition("/")[0], called) for path, called, _ in _calls() if re.fullmatch(r"hashlib\.\w+", called)}
    assert {called for folder, called in hashes if folder not in {"formats", "threats"}} <= {
        "hashlib.sha256",
        "hashlib.file_digest",
    }
    old = [call for _, called, call in _calls() if called in {"hashlib.md5", "hashlib.sha1"}]
    assert all(any(word.arg == "usedforsecurity" and ast.unparse(word.value) == "False" for word in call.keywords) for call in old)


@pytest.mark.asvs("7.2.3", "11.5.1")
def test_a_key_holds_256_bits_of_the_systems_randomness_and_nothing_else_draws_any() -> None:
    texts = {new_key(KeyMode("live")).text for _ in range(500)}
    presented = [parse_key(text) for text in texts]
    assert len(texts) == 500
    assert all(one is not None for one in presented)
    assert 62 ** len(next(iter(texts)).rpartition("_")[2]) > 2**256
    assert _importing("random") == {"worker/stale_parts.py"}  # it spreads the load of sweeps


@pytest.mark.asvs("13.2.3")
def test_no_setting_has_a_credential_from_the_factory() -> None:
    secret = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert len(secret) > 3
    assert {name: Settings.model_fields[name].default for name in secret} == dict.fromkeys(secret)
    assert not any(isinstance(field.default, SecretStr) for field in Settings.model_fields.values())


@pytest.mark.asvs("15.2.3")
def test_what_is_shipped_holds_no_tests_and_no_samples() -> None:
    names = [path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert not [name for name in names if name.name.startswith(("test_", "conftest"))]
    assert _importing("pytest", "hypothesis", "tests", "unittest") == set()
    assert {name.suffix for name in names} <= {".py", ".typed", ".mako", ".yar", ".json", ".sql", ".c", ".ini"}
