"""Says what of an episode the loss mask depends on, beside its tags: weights, failures, places."""
