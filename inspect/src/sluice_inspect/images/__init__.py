"""Code shared by picture formats, and by formats that contain pictures: decoding, the blank rule, embedded pictures."""
