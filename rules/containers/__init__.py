"""Rules on the containers, pods and services that servers run in."""
