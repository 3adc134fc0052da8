"""Examples of the documents that a context expects. How an upload is compared with them lives in `uploads`."""

from sluice.examples.example import Example, ExampleDraft, ExampleSet

__all__ = ["Example", "ExampleDraft", "ExampleSet"]
