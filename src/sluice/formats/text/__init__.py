"""What the kinds of text share: plain characters, safe XML, JSON as a stream, web pages. Which file is which is in `kinds`."""
