"""A trained network and a motion code become a next frame."""
