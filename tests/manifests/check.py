#!/usr/bin/env python3
"""Holds every YAML example in README and docs to its schema: Kubernetes objects to the models of the official client, a
FlinkDeployment to the fields of the Flink Kubernetes Operator, a compose file and Flink's own configuration to theirs. A key
that a schema does not know, a value of another type and a required field that is missing are faults.

    check.py [MODULES]  needs the Python packages `kubernetes` and `PyYAML`; with the folder that has the npm package
                        `@kubernetes-models/flink` a FlinkDeployment is also held to the operator's own definition (by node)
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml
from kubernetes import client

ROOT = Path(__file__).resolve().parents[2]

POD_TEMPLATE = "V1PodTemplateSpec"
# Names and forms by the operator's reference of its custom resources, 1.13
# (nightlies.apache.org/flink/flink-kubernetes-operator-docs-main, "Custom Resource Reference").
RESOURCE = {"cpu": (int, float), "memory": str, "ephemeralStorage": str}
FLINK_DEPLOYMENT = {
    "image": str,
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "flinkVersion": {*(f"v1_{minor}" for minor in range(13, 21)), "v2_0", "v2_1"},
    "serviceAccount": str,
    "mode": {"native", "standalone"},
    "restartNonce": int,
    "flinkConfiguration": {...: str},
    "logConfiguration": {...: str},
    "podTemplate": POD_TEMPLATE,
    "jobManager": {"replicas": int, "resource": RESOURCE, "podTemplate": POD_TEMPLATE},
    "taskManager": {"replicas": int, "resource": RESOURCE, "podTemplate": POD_TEMPLATE},
    "job": {
        "jarURI": str, "entryClass": str, "args": [str], "parallelism": int, "state": {"running", "suspended"},
        "upgradeMode": {"stateless", "savepoint", "last-state"}, "allowNonRestoredState": bool, "initialSavepointPath": str,
        "savepointTriggerNonce": int, "checkpointTriggerNonce": int, "savepointRedeployNonce": int,
    },
}
NEEDED_IN_DEPLOYMENT = ("image", "flinkVersion", "serviceAccount", "jobManager", "taskManager")
# By prometheus.io/docs/alerting/latest/configuration.
ALERTMANAGER = {
    "route": {"receiver": str, "group_by": [str], "group_wait": str, "group_interval": str, "repeat_interval": str, "routes": [{
        "receiver": str, "matchers": [str], "group_by": [str], "continue": bool,
        "group_wait": str, "group_interval": str, "repeat_interval": str,
    }]},
    "receivers": [{"name": str, "webhook_configs": [{"url": str, "send_resolved": bool}], "email_configs": [{"to": str}]}],
}
COMPOSE = {
    "services": {...: {"image": str, "command": str, "environment": {...: str}, "volumes": [str]}},
    "volumes": {...: {}},
}


def by_form(value, form, at):
    """Faults of a value against a form: a type, a set of words, a list of one form, or a table; `...` stands for any key."""
    if isinstance(form, str):
        yield from by_model(value, form, at)
    elif isinstance(form, set):
        if value not in form:
            yield f"{at}: `{value}` is none of {sorted(form)}"
    elif isinstance(form, list):
        if not isinstance(value, list):
            yield f"{at}: no list"
        else:
            for number, entry in enumerate(value):
                yield from by_form(entry, form[0], f"{at}[{number}]")
    elif isinstance(form, dict):
        if not isinstance(value, dict):
            yield f"{at}: no table"
            return
        for key, entry in value.items():
            known = form.get(key, form.get(...))
            if known is None:
                yield f"{at}: nobody knows `{key}`"
            else:
                yield from by_form(entry, known, f"{at}.{key}")
    elif not isinstance(value, form) or isinstance(value, bool) and form is not bool:
        yield f"{at}: {value!r} is no {form}"


def by_model(value, model, at):
    """Faults of a value against a type as the Kubernetes client names it: `V1Pod`, `list[V1Volume]`, `dict(str, str)`."""
    simple = {"str": str, "int": int, "float": (int, float), "bool": bool, "datetime": str}
    if model in simple:
        yield from by_form(value, simple[model], at)
    elif model == "object":
        return
    elif inner := re.fullmatch(r"list\[(.+)\]", model):
        if not isinstance(value, list):
            yield f"{at}: no list"
            return
        for number, entry in enumerate(value):
            yield from by_model(entry, inner[1], f"{at}[{number}]")
    elif inner := re.fullmatch(r"dict\(str, (.+)\)", model):
        if not isinstance(value, dict):
            yield f"{at}: no table"
            return
        for key, entry in value.items():
            yield from by_model(entry, inner[1], f"{at}.{key}")
    else:
        yield from by_class(value, getattr(client, model), at)


def by_class(value, of_class, at):
    if not isinstance(value, dict):
        yield f"{at}: no table"
        return
    names = {outer: inner for inner, outer in of_class.attribute_map.items()}
    for key, entry in value.items():
        if key not in names:
            yield f"{at}: {of_class.__name__} does not know `{key}`"
        else:
            yield from by_model(entry, of_class.openapi_types[names[key]], f"{at}.{key}")
    try:
        of_class(**{names[key]: entry for key, entry in value.items() if key in names})
    except ValueError as missing:
        yield f"{at}: {missing}"


def of_document(document, at):
    """Faults of one document, by what it is."""
    kind = document.get("kind")
    if kind == "FlinkDeployment":
        for key in document.keys() - {"apiVersion", "kind", "metadata", "spec"}:
            yield f"{at}: nobody knows `{key}`"
        if document["apiVersion"] != "flink.apache.org/v1beta1":
            yield f"{at}: apiVersion"
        yield from by_model(document["metadata"], "V1ObjectMeta", f"{at}.metadata")
        yield from by_form(document["spec"], FLINK_DEPLOYMENT, f"{at}.spec")
        for key in NEEDED_IN_DEPLOYMENT:
            if key not in document["spec"]:
                yield f"{at}.spec: `{key}` is missing"
    elif kind:
        model = getattr(client, f"V1{kind}", None)
        if model is None:
            yield f"{at}: nobody knows the kind {kind}"
        else:
            yield from by_class(document, model, at)
    elif "services" in document:
        yield from by_form(document, COMPOSE, at)
    elif "receivers" in document:
        yield from by_form(document, ALERTMANAGER, at)
    elif "spec" in document:
        # A part of a FlinkDeployment. What a comment stands for is empty.
        yield from by_form(without_empty(document["spec"]), FLINK_DEPLOYMENT, at)
    else:
        # Flink's own configuration, flat or nested.
        for key in document:
            if not re.match(r"(env|high-availability|heartbeat|taskmanager|jobmanager|kubernetes|yarn)\b", key):
                yield f"{at}: `{key}` is no key of Flink's"


def without_empty(value):
    if isinstance(value, dict):
        return {key: without_empty(entry) for key, entry in value.items() if entry is not None}
    return value


def examples():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", path.read_text(), re.S | re.M), 1):
            for document in yaml.safe_load_all(block):
                yield f"{path.relative_to(ROOT)}, example {number}", document


def by_the_operator(documents, modules):
    """Faults of the FlinkDeployments against the operator's resource definition. That lets an unknown key pass."""
    script = Path(__file__).with_name("flink_deployment.mjs")
    found = subprocess.run(["node", script, modules], input=json.dumps(documents), stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout.splitlines()


def main():
    faults, count, deployments = [], 0, []
    for at, document in examples():
        count += 1
        faults.extend(of_document(document, at))
        if document.get("kind") == "FlinkDeployment":
            deployments.append((at, document))
    if not deployments:
        faults.append("no whole FlinkDeployment was found")
    if len(sys.argv) > 1:
        faults.extend(by_the_operator(deployments, sys.argv[1]))
    # The check itself must see a fault, or its silence says nothing.
    wrong = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": 5, "mounts": []}]}}
    if len(list(of_document(wrong, ""))) != 3:
        faults.append(f"this check sees {list(of_document(wrong, ''))} in a pod with three faults")
    if count < 8:
        faults.append(f"only {count} examples were found")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{count} manifests and configurations, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
