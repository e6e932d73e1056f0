"""Carriers: shell scripts, Dockerfiles, Kubernetes manifests and compose files that start a command of some dialect."""
