"""Holds the commands of training, and the reader of prepared folders for `mypt-view`."""
