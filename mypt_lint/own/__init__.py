"""Makes and checks grammar folders of one's own."""
