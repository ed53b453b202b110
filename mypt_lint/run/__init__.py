"""Runs checks over sources: findings come out in order, by one process or several."""
