"""Containers that several formats share: ISO base media files and the movies in them, RIFF."""
