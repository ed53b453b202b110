"""Hands units to engines that exist: processes of this machine, Ray, Slurm, or any shell."""

# Launchers that wait for the work, and those that hand it on and return.
WAITING, HANDING = ("local", "ray"), ("slurm", "shell")
LAUNCHERS = (*WAITING, *HANDING)
