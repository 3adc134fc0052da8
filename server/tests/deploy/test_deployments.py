"""Container, Compose, Kubernetes and systemd files: settings that exist, files that exist, and no rights beyond need."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice import __version__
from sluice.settings import Settings, unknown_variables
from tests.rows import each_row

DEPLOY = Path(__file__).parents[3] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OURS = {"sluice-secrets", "sluice-keys", "sluice-owner"}


def documents(path: Path) -> Iterator[Any]:
    yield from filter(None, yaml.safe_load_all(path.read_text()))


def resources() -> Iterator[Any]:
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield from documents(path)


def pods() -> list[tuple[str, Any]]:
    templated = [each for each in resources() if "template" in each.get("spec", {})]
    return [(each["metadata"]["name"], each["spec"]["template"]["spec"]) for each in templated]


def test_variables_of_all_deployments_are_settings() -> None:
    # HAProxy has variables of its own.
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.name != "haproxy.cfg"]
    named = {name for path in files for name in re.findall(r"\bSLUICE_[A-Z0-9_]+\b", path.read_text())}
    assert len(named) > 15
    assert not unknown_variables(named)


def test_kubernetes_settings_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    (settings,) = (each["data"] for each in resources() if each["kind"] == "ConfigMap")
    for name, value in settings.items():
        assert isinstance(value, str), name
        monkeypatch.setenv(name, value)
    assert Settings().production


@each_row("name, pod", pods())
def test_pods_meet_the_restricted_standard(name: str, pod: Any) -> None:
    context = pod["securityContext"]
    assert context["runAsNonRoot"]
    assert context["runAsUser"] == context["fsGroup"] == 10001
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["enableServiceLinks"] is False, "Kubernetes would set SLUICE_PORT"
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= set(container["resources"])
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        assert "hostPath" not in str(pod["volumes"])


def test_kubernetes_names_fit_together() -> None:
    found = list(resources())
    by_kind: defaultdict[str, set[str]] = defaultdict(set)
    for each in found:
        by_kind[each["kind"]].add(each["metadata"]["name"])
    for _name, pod in pods():
        assert pod["serviceAccountName"] in by_kind["ServiceAccount"]
        for container in pod["containers"]:
            for source in container["envFrom"]:
                (reference,) = source.values()
                assert reference["name"] in by_kind["ConfigMap"] | OURS
    (scaler,) = (each for each in found if each["kind"] == "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] in by_kind["Deployment"]
    templates = [each["spec"]["template"] for each in found if "template" in each.get("spec", {})]
    components = {each["metadata"]["labels"]["app.kubernetes.io/component"] for each in templates}
    for each in found:
        if each["kind"] in {"Service", "PodDisruptionBudget"}:
            selector = each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
            assert selector["app.kubernetes.io/component"] in components


@each_row("path", sorted(KUBERNETES.rglob("kustomization.yaml")))
def test_kustomizations_name_what_exists(path: Path) -> None:
    (kustomization,) = documents(path)
    for resource in kustomization["resources"]:
        assert (path.parent / resource).exists(), resource
    listed = {name for name in kustomization["resources"] if name.endswith(".yaml")}
    assert listed == {each.name for each in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
    names = {each["metadata"]["name"] for each in resources()}
    assert {each["name"] for each in kustomization.get("replicas", [])} <= names
    for image in kustomization.get("images", []):
        assert image["newTag"] == __version__


def test_compose_requires_secrets_with_a_reason_and_gives_no_rights() -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text()
    (found,) = documents(DEPLOY / "compose" / "compose.yaml")
    sluice = found["services"]["sluice"]
    assert sluice["read_only"]
    assert sluice["cap_drop"] == ["ALL"]
    # only as process 1 it knows that its output is kept, and writes the first key to a file
    assert "init" not in sluice
    not_required = re.findall(r"\$\{([A-Z_]*(?:PASSWORD|SECRET|ACCESS_KEY_ID)[A-Z_]*)(?!:\?)[^}:]*\}", text)
    assert not_required == []
    for each in found["services"].values():
        assert set(each.get("networks", [])) <= set(found["networks"])
        for volume in each.get("volumes", []):
            assert volume.partition(":")[0] in found["volumes"]
    assert "ports" not in found["services"]["postgres"]


def test_compose_with_s3_adds_to_the_same_services() -> None:
    (base,) = documents(DEPLOY / "compose" / "compose.yaml")
    (s3,) = documents(DEPLOY / "compose" / "compose.s3.yaml")
    assert set(s3["services"]) - set(base["services"]) == {"garage"}
    assert (DEPLOY / "compose" / "garage.toml").is_file()


def test_the_image_runs_as_a_user_and_is_checked() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text()
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]
    assert 'HEALTHCHECK --interval=10s --timeout=10s --start-period=60s CMD ["sluice", "health"]' in text
    assert f"ARG VERSION={__version__}" in text
    root = DEPLOY.parent
    for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
        assert all((root / name).exists() for name in line.split())
    assert (root / ".containerignore").read_text() == (root / ".dockerignore").read_text()


@each_row("path", sorted((DEPLOY / "systemd").glob("*.service")))
def test_units_are_templates_that_run_a_command_of_ours(path: Path) -> None:
    text = path.read_text()
    assert path.name.endswith("@.service")
    assert re.search(r"^ExecStart=/opt/sluice/bin/sluice (serve|work)$", text, re.MULTILINE)
    assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="} <= set(text.splitlines())
