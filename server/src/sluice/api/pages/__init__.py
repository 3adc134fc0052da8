"""The upload page for people without an application, and the files that it and `<sluice-upload>` are made of."""
