"""Sources in, findings out, in order, by one process or several."""
