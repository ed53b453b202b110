"""Checks data by units on many processes or machines, with the output of one `mypt-lint`."""
