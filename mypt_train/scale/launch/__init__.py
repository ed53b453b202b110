"""Hands units to engines that exist: processes of this machine, Ray, Slurm, or any shell."""
