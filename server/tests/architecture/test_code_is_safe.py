"""Unsafe constructs that the code must not use (eval, shells, pickle, weak ciphers), checked in its syntax trees."""

import ast
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import pytest
from pydantic import SecretStr

from sluice.api_keys.secret import KeyMode, new_key, parse_key
from sluice.settings import Settings
from tests.repository import ROOT, SOURCES

CLIENT = ROOT / "clients/python/src"
INSPECTION = ("sluice_inspect/archives", "sluice_inspect/formats", "sluice_inspect/images", "sluice_inspect/media")
PATTERNS = {"compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer"}


@dataclass(frozen=True)
class Nodes:
    """The nodes of a module that the tests look at; each tree is walked once."""

    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    calls: list[ast.Call] = field(default_factory=list)
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = field(default_factory=list)


@cache
def modules() -> dict[str, Nodes]:
    """Return the nodes of each module. Parsed on first use: every worker collects this file, one runs it."""
    gc.disable()  # the trees are no garbage, and there are millions of nodes
    try:
        return {
            str(path.relative_to(root)): _nodes(ast.parse(path.read_text(encoding="utf-8")))
            for root in (*SOURCES, CLIENT)
            for path in sorted(root.rglob("*.py"))
        }
    finally:
        gc.enable()


def _nodes(tree: ast.Module) -> Nodes:
    nodes = Nodes()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            nodes.imports.append(node)
        elif isinstance(node, ast.Call):
            nodes.calls.append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            nodes.functions.append(node)
    return nodes


def _names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _imported() -> list[tuple[str, str]]:
    """Return every import as its file and the name."""
    return [(path, name) for path, nodes in modules().items() for node in nodes.imports for name in _names(node)]


def _importing(*modules: str) -> set[str]:
    """Return the files that import one of these modules, or a name from one."""
    return {
        path for path, name in _imported() if any(name == module or name.startswith(f"{module}.") for module in modules)
    }


def _dotted(node: ast.expr) -> str:
    """Return a name with its attributes as it is written; what is no name is `()`. (`ast.unparse` takes seconds.)"""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "()"


@cache
def _calls() -> list[tuple[str, str, ast.Call]]:
    """Return every call as its file, the text of what is called, and the node."""
    return [(path, _dotted(node.func), node) for path, nodes in modules().items() for node in nodes.calls]


@pytest.mark.asvs("1.3.2")
def test_code_never_evaluates_strings() -> None:
    assert {path for path, called, _ in _calls() if called in {"eval", "exec", "compile", "__import__"}} == set()
    assert _importing("mako", "code", "codeop") == set()
    # Templates are files of the package, and every value in them is escaped; none is made of a text.
    assert _importing("jinja2") == {"sluice/api/pages/upload_page.py", "sluice/console/templating.py"}
    assert not [path for path, called, _ in _calls() if called.endswith("from_string")]


@pytest.mark.asvs("1.2.5")
def test_only_the_sandbox_starts_programs_and_never_through_a_shell() -> None:
    """It starts Python with a module of Sluice; no argument comes from a request."""
    assert _importing("subprocess", "pty", "commands") == {"sluice_inspect/sandbox/launch.py"}
    assert not [path for path, called, _ in _calls() if called.startswith(("os.spawn", "os.system", "os.popen"))]
    assert {path for path, _, call in _calls() for word in call.keywords if word.arg == "shell"} == set()


@pytest.mark.asvs("1.4.1")
def test_ctypes_is_used_only_for_kernel_calls_and_in_child_processes() -> None:
    assert _importing("cffi", "numba", "Cython") == set()
    assert {path for path in _importing("ctypes") if not path.startswith(INSPECTION)} == {
        "sluice_inspect/child/landlock.py",
        "sluice_inspect/child/confinement.py",
        "sluice_inspect/child/seccomp.py",
        "sluice_inspect/format.py",  # find_library only: loads nothing
        "sluice_inspect/ocr/tesseract.py",  # in a locked child
        "sluice/kit/libc.py",
    }
    assert not [
        path for root in SOURCES for path in root.rglob("*") if path.suffix in {".c", ".h", ".pyx", ".so", ".rs"}
    ]


@pytest.mark.asvs("1.5.2")
def test_no_module_deserializes_objects() -> None:
    assert _importing("pickle", "marshal", "shelve", "dill", "cloudpickle") == set()
    # files of rules that the user of the command names; `TYPE_CHECKING` alone in the second
    assert _importing("yaml") == {"sluice/cli/yaml_text.py", "sluice/cli/apply.py"}
    # the latter makes nodes, for their lines, and no objects
    assert {called for _, called, _ in _calls() if called.startswith("yaml.")} == {"yaml.safe_load", "yaml.compose"}


@pytest.mark.asvs("1.2.9")
def test_regular_expressions_are_never_built_from_input() -> None:
    """They are made when their module is loaded, or are literals at the call."""
    with_re = {path for path, called, _ in _calls() if called.startswith(("re.", "LatePattern"))}
    dynamic = {
        f"{path}: {ast.unparse(call.args[0])}"
        for path in with_re
        for function in modules()[path].functions
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and (called := _dotted(call.func)).startswith(("re.", "LatePattern"))
        and (called == "LatePattern" or called[3:] in PATTERNS)
        and not isinstance(call.args[0], ast.Constant)
    }
    assert dynamic == {"sluice_inspect/text/late_pattern.py: self._text"}  # of a `LatePattern`, which none makes here


@pytest.mark.asvs("11.2.1", "11.3.1")
def test_the_only_cipher_is_aes_gcm_from_cryptography() -> None:
    ciphers = {
        name
        for path, name in _imported()
        if name.startswith("cryptography")
        and "ciphers" in name
        # the ZIP format demands its own; the password is public, and protects no secret
        and not str(path).endswith("kit/protected_zip.py")
    }
    assert ciphers == {"cryptography.hazmat.primitives.ciphers.aead.AESGCM"}
    assert _importing("Crypto", "Cryptodome", "nacl", "rsa", "ecdsa", "M2Crypto", "crypt") == set()


@pytest.mark.asvs("11.4.3")
def test_service_hashes_with_sha_256_only() -> None:
    """MD5 and SHA-1 are computed only where a format or a store demands them, and are marked as not used for security."""
    hashes = {(path, called) for path, called, _ in _calls() if re.fullmatch(r"hashlib\.\w+", called)}
    of_stores = ("sluice/storage/azure/puts", "sluice/storage/gcs/puts", "sluice/storage/gcs/hmac_puts")
    others = ("sluice_inspect/", "sluice/kit/protected_zip", "sluice/uploads/hash_lookup", *of_stores)
    ours = {called for path, called in hashes if not path.startswith(others)}
    assert ours <= {"hashlib.sha256", "hashlib.file_digest"}
    weak = [call for _, called, call in _calls() if called in {"hashlib.md5", "hashlib.sha1"}]
    assert all(
        any(word.arg == "usedforsecurity" and ast.unparse(word.value) == "False" for word in call.keywords)
        for call in weak
    )


@pytest.mark.asvs("7.2.3", "11.5.1")
def test_api_keys_have_256_bits_of_system_randomness() -> None:
    texts = {new_key(KeyMode("live")).text for _ in range(500)}
    parsed = [parse_key(text) for text in texts]
    assert len(texts) == 500
    assert all(key is not None for key in parsed)
    assert 62 ** len(next(iter(texts)).rpartition("_")[2]) > 2**256
    assert _importing("random") == {
        "sluice/storage/azure/client.py",  # spreads the retries of requests
        "sluice/storage/gcs/client.py",  # spreads the retries of requests
        "sluice/uploads/demo.py",  # the past of a demo
        "sluice/webhooks/endpoint.py",  # spreads the retries of deliveries
        "sluice/worker/jobs/incoming.py",  # spreads the load of sweeps
        "sluice/worker/jobs/housekeeping.py",  # the same
        "sluice_client/core.py",  # spreads the retries of requests
    }


@pytest.mark.asvs("13.2.3")
def test_no_setting_has_a_default_credential() -> None:
    secret = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert len(secret) > 3
    assert {name: Settings.model_fields[name].default for name in secret} == dict.fromkeys(secret)
    assert not any(isinstance(field.default, SecretStr) for field in Settings.model_fields.values())


@pytest.mark.asvs("15.2.3")
def test_shipped_packages_contain_no_tests_and_no_samples() -> None:
    paths = [(path, root) for root in SOURCES for path in root.rglob("*") if path.is_file()]
    names = [path.relative_to(root) for path, root in paths if "__pycache__" not in path.parts]
    assert not [name for name in names if name.name.startswith(("test_", "conftest"))]
    assert _importing("pytest", "hypothesis", "tests", "unittest") == set()
    console = {".html", ".css", ".js", ".svg"}  # templates, style sheet and script
    allowed = console | {".py", ".typed", ".mako", ".yar", ".json", ".sql", ".c", ".ini"}
    assert {name.suffix for name in names} <= allowed
