"""Sound and video, shared by several formats: decoding with FFmpeg, detection of content, audio tags, sample files."""
