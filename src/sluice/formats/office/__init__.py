"""What the kinds of office documents share: compound files, OOXML, OpenDocument, EPUB, RTF, and where each keeps its ink. Which file is which is in `kinds`."""
