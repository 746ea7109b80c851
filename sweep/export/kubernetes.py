"""A Kubernetes manifest: one workload per pool, a service in front, configuration files in a ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from sweep.export.command import CHECKPOINT, Command
from sweep.export.deployment import Deployment, Pool
from sweep.export.documented import documented

PORT = 8000
MOUNT = "/etc/servesweep"
DEVICE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
START_MINUTES = 60
"""How long loading weights and capturing graphs may take before a worker counts as failed."""


def manifest(
    d: Deployment,
    servers: Mapping[str, Command],
    router: Command | None,
    files: Mapping[str, str],
    checkpoint: str,
) -> str:
    """The manifest as YAML documents. `servers` by role; `files` are the engine's configuration files by name.

    Without `router` split pools need one of the person's own, with the labels that the service selects.
    """
    documents: list[dict[str, Any]] = []
    if files:
        documents.append(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(d, "options"), "data": dict(files)}
        )
    for pool in d.pools:
        documents += _workers(d, pool, servers[pool.role], bool(files), checkpoint)
    if router is not None:
        documents.append(_router(d, router, bool(files), checkpoint))
    front = "serve" if len(d.pools) == 1 else "router"
    documents.append(_service(d, d.name, {"app": d.name, "role": front}))
    return "---\n".join(yaml.safe_dump(document, sort_keys=False, width=120) for document in documents)


def worker_urls(d: Deployment) -> dict[str, list[str]]:
    """Where the workers of each pool listen, by role."""
    return {pool.role: [f"http://{host}:{PORT}" for host in _hosts(d, pool)] for pool in d.pools}


def _hosts(d: Deployment, pool: Pool) -> Iterator[str]:
    name = f"{d.name}-{pool.role}"
    return (f"{name}-{i}.{name}" for i in range(pool.replicas))


def _workers(
    d: Deployment, pool: Pool, server: Command, mounted: bool, checkpoint: str
) -> Iterator[dict[str, Any]]:
    """A Deployment where workers are alike; a StatefulSet where they need names: in split pools and across nodes."""
    container = _container(d, server, pool.gpus // pool.nodes, mounted, checkpoint)
    if pool.nodes > 1:
        for i in range(pool.replicas):
            yield from _spanning(d, pool, container, mounted, i)
    elif d.split:
        name = f"{d.name}-{pool.role}"
        yield _headless(d, name, pool.role)
        yield _stateful(d, name, pool.role, pool.replicas, _pod(d, pool.role, container, mounted))
    else:
        labels = {"app": d.name, "role": pool.role}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _meta(d, pool.role),
            "spec": {
                "replicas": pool.replicas,
                "selector": {"matchLabels": labels},
                "template": _pod(d, pool.role, container, mounted),
            },
        }


def _spanning(
    d: Deployment, pool: Pool, container: dict[str, Any], mounted: bool, index: int
) -> Iterator[dict[str, Any]]:
    """One worker across nodes: a pod per node, the first is the head that the service reaches."""
    name = f"{d.name}-{pool.role}" + (f"-{index}" if pool.replicas > 1 else "")
    rank = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
    named = [{"name": "NODE_RANK", "valueFrom": rank}, {"name": "HEAD", "value": f"{name}-0.{name}"}]
    pod = _pod(d, pool.role, {**container, "env": [*container["env"], *named]}, mounted)
    yield _headless(d, name, pool.role)
    yield _stateful(d, name, pool.role, pool.nodes, pod)


def _stateful(d: Deployment, name: str, role: str, replicas: int, pod: dict[str, Any]) -> dict[str, Any]:
    pod = {**pod, "metadata": {"labels": {**pod["metadata"]["labels"], "set": name}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": {"app": d.name, "role": role}},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": d.name, "set": name}},
            "template": pod,
        },
    }


def _headless(d: Deployment, name: str, role: str) -> dict[str, Any]:
    service = _service(d, name, {"app": d.name, "set": name})
    service["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return service


def _service(d: Deployment, name: str, selector: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {"app": d.name}},
        "spec": {"selector": selector, "ports": [{"port": PORT, "targetPort": PORT}]},
    }


def _router(d: Deployment, router: Command, mounted: bool, checkpoint: str) -> dict[str, Any]:
    labels = {"app": d.name, "role": "router"}
    container = _container(d, router, 0, mounted, checkpoint)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(d, "router"),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": _pod(d, "router", container, mounted),
        },
    }


def _pod(d: Deployment, role: str, container: dict[str, Any], mounted: bool) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if mounted:
        volumes.append({"name": "options", "configMap": {"name": f"{d.name}-options"}})
    return {
        "metadata": {
            "labels": {"app": d.name, "role": role},
            "annotations": {"servesweep/accelerator": d.hardware},
        },
        "spec": {"containers": [container], "volumes": volumes},
    }


def _container(d: Deployment, command: Command, gpus: int, mounted: bool, checkpoint: str) -> dict[str, Any]:
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    if mounted:
        mounts.append({"name": "options", "mountPath": MOUNT})
    container: dict[str, Any] = {
        "name": d.engine,
        "image": documented(d.engine).image[d.vendor],
        "command": [_expanded(word, mounted) for word in command.words()],
        "env": [
            {"name": "CHECKPOINT", "value": checkpoint},
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}},
            },
        ],
        "ports": [{"containerPort": PORT}],
        "volumeMounts": mounts,
    }
    if gpus:
        container["resources"] = {"limits": {DEVICE[d.vendor]: gpus}}
        container["readinessProbe"] = _probe()
        container["startupProbe"] = _probe() | {"failureThreshold": START_MINUTES * 6}
    return container


def _probe() -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 10}


def _expanded(word: str, mounted: bool) -> str:
    """A word of the command as Kubernetes fills it in; configuration files are where they are mounted."""
    if word == CHECKPOINT:
        return "$(CHECKPOINT)"
    word = word.replace("$NODE_RANK", "$(NODE_RANK)").replace("$HEAD", "$(HEAD)")
    return f"{MOUNT}/{word}" if mounted and word.endswith(".yaml") else word


def _meta(d: Deployment, part: str) -> dict[str, Any]:
    return {"name": f"{d.name}-{part}", "labels": {"app": d.name}}
