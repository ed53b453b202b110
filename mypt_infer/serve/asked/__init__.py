"""What a request asks: its parameters, its prompt, the decoder of its tools, the names of these."""
