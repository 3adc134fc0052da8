"""What several formats written in text share: characters and encodings, safe XML, visible HTML, header rows."""
